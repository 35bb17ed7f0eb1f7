"""Ids in output: letters and digits for people and in JSON, bytes where the type is kept."""

from __future__ import annotations

import pytest

from shoal.formats import registry
from shoal.ids import parse
from shoal.model import types as t
from shoal.model.fields import KSUID, NO_ID, id_list, id_text, id_value, is_id
from shoal.model.values import Value, array, int64, map_of, record
from shoal.testing.samples import written

TEXT = "3MBB7BWkQOlJQYSUfQTHTvuCY4h"
HEX = parse(TEXT).hex()
ROW = record([("id", id_value(parse(TEXT))), ("none", Value(KSUID, None)), ("n", int64(1))])


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("json", f'{{"id":"{TEXT}","none":null,"n":1}}\n'),
        ("ndjson", f'{{"id":"{TEXT}","none":null,"n":1}}\n'),
        ("csv", f"id,none,n\n{TEXT},,1\n"),
        ("tsv", f"id\tnone\tn\n{TEXT}\t\t1\n"),
        ("text", f"{TEXT}\t-\t1\n"),
        ("table", f"id                          none n\n{TEXT} -    1\n"),
        ("zson", f"{{id:0x{HEX}(=ksuid.KSUID),none:null(ksuid.KSUID),n:1}}\n"),
    ],
)
def test_an_id_is_text_where_people_read_it(name: str, output: str) -> None:
    assert written(registry.by_name(name).load_writer(), [ROW]).decode() == output


def test_ids_in_containers_are_text_too() -> None:
    to_json = registry.by_name("json").load_writer()
    assert written(to_json, [id_list([parse(TEXT), NO_ID])]).decode() == f'["{TEXT}","0x{NO_ID.hex()}"]\n'
    assert written(to_json, [map_of([(id_value(parse(TEXT)), int64(1))])]).decode() == f'{{"{TEXT}":1}}\n'
    table = registry.by_name("table").load_writer()
    assert written(table, [record([("ids", array([id_value(parse(TEXT))]))])]).decode() == f"ids\n{TEXT}\n"


def test_other_bytes_stay_bytes() -> None:
    to_json = registry.by_name("json").load_writer()
    assert written(to_json, [Value(t.BYTES, parse(TEXT))]).decode() == f'"0x{HEX}"\n'
    assert written(to_json, [Value(KSUID, b"\x01")]).decode() == '"0x01"\n'
    assert id_text(b"") == "0x"
    assert not is_id(t.BYTES)
    assert not is_id(t.named("ksuid.KSUID", t.STRING))
