"""Settings that are wrong are one line, which says what was most likely meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.connect.etl import parse_etl, read_etl
from shoal.connect.settings import Section
from shoal.errors import InvalidInput, NotFound
from shoal.testing.etl_scenes import WHOLE, Scene
from shoal.testing.scripts import call_shoal

GOOD: dict[str, Any] = {"input": "raw", "output": "staging", "transforms": [WHOLE]}
DENORM = {"type": "denorm", "out": "o", "zed": "pass", "left": "A", "right": "B", "join-on": "A.x=B.x"}


def changed(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in {**GOOD, **settings}.items() if value is not None}


def transform(**settings: Any) -> dict[str, Any]:
    changed = {name: value for name, value in {**WHOLE, **settings}.items() if value is not None}
    return {**GOOD, "transforms": [changed]}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (changed(input=None), "etl.yaml.etl: input is missing"),
        (changed(inptu="raw"), "etl.yaml.etl: no setting named 'inptu' (did you mean input?)"),
        (changed(transforms=None), "transforms is missing"),
        (changed(output="raw"), "raw@main is input and output"),
        (changed(every="soon"), "etl.yaml.etl.every: 'soon' (such as 30s)"),
        (changed(batch={"record": 5}), "etl.yaml.etl.batch: no setting named 'record' (did you mean records?)"),
        (changed(batch={"records": 0}), "a whole number of at least 1"),
        (changed(expire={"after": "10m"}), "etl.yaml.etl.expire: pool is missing"),
        (changed(expire={"after": "0s", "pool": "x"}), "etl.yaml.etl.expire.after: expecting a duration"),
        (changed(expire={"pool": "staging"}), "staging@main is used already (name another pool)"),
        (changed(transforms=[WHOLE, WHOLE]), "etl.yaml.etl.transforms[1]: another transaction is called 'whole'"),
        (transform(type="transactoin"), "etl.yaml.etl.transforms[0].type: 'transactoin' (did you mean transaction?)"),
        (transform(type="x"), "(one of: stateless, transaction, denorm)"),
        (transform(done=None), "etl.yaml.etl.transforms[0]: done is missing"),
        (transform(zed=None), "etl.yaml.etl.transforms[0]: zed is missing"),
        (transform(out=None), "etl.yaml.etl.transforms[0]: out is missing"),
        (transform(dune="x"), "no setting named 'dune' (did you mean done?)"),
        (transform(id="a, b"), "etl.yaml.etl.transforms[0].id: expecting a single expression, not 'a, b'"),
        ({**GOOD, "transforms": [{**DENORM, "join-on": "C.x=B.x"}]}, "join-on: no topic named 'C' (such as A.value.ID"),
        ({**GOOD, "transforms": [{**DENORM, "join-on": "A.x"}]}, "join-on: expecting A.value.ID=B.value.ID"),
        ({**GOOD, "transforms": [{**DENORM, "right": None}]}, "transforms[0]: right is missing"),
        ({**GOOD, "transforms": [{"type": "denorm", "out": "o", "zed": "pass", "on": {"A": "x"}}]}, "several topics"),
    ],
)
def test_wrong_settings_are_one_line(section: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_etl(Section("etl.yaml", {"etl": section}))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"zed": "yield {a:1}\n| yield {b:"}, "transforms[0].zed at line 2, column"),
        ({"zed": "yield nosuch(1)"}, "transforms[0].zed at line 1, column 7"),
        ({"zed": "yield 1 ) | ( yield 2"}, "transforms[0].zed at line 1, column 9"),
        ({"id": "value."}, "transforms[0].id at line 1, column"),
        ({"done": "value.a) or (true"}, "transforms[0].done at line 1, column 8"),
        ({"where": "value.x =="}, "transforms[0].where at line 1, column"),
        ({"key": "lower()"}, "lower"),
    ],
)
def test_a_program_that_does_not_compile_is_refused_with_its_position(settings: dict[str, str], place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_etl(Section("etl.yaml", {"etl": transform(**settings)}))
    assert place in str(caught.value)


def test_a_program_cannot_read_other_sources(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match=r"transforms\[0\]"):
        scene.config({**WHOLE, "zed": "from other"})


def test_defaults(tmp_path: Path) -> None:
    path = tmp_path / "etl.yaml"
    path.write_text(yaml.safe_dump({"etl": {**GOOD, "expire": {"pool": "expired@x"}}, "kafka": {"a": 1}}))
    config = read_etl(str(path))
    assert (config.name, config.every, config.records) == ("etl", 1.0, 100_000)
    assert config.expire is not None
    assert (str(config.expire.place), config.expire.limits.after) == ("expired@x", None)
    assert config.expire.limits.records == 1_000_000
    with pytest.raises(NotFound, match="file does not exist"):
        read_etl(str(tmp_path / "nosuch.yaml"))


def test_pools_that_are_sorted_otherwise_are_refused(scene: Scene) -> None:
    scene.lake.create("up", key="seqno:asc")
    with pytest.raises(InvalidInput, match=r"up: .* sorted by seqno, descending.*shoal create -orderby seqno:desc"):
        scene.etl(WHOLE, output="up")
    with pytest.raises(InvalidInput, match=r"other: .* sorted by seqno, ascending.*shoal create -orderby seqno NAME"):
        scene.etl(WHOLE, input="other")
    with pytest.raises(NotFound, match="nosuch: pool not found"):
        scene.etl(WHOLE, expire={"pool": "nosuch"})


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "-config is missing"),
        (["x"], 2, "etl: unexpected 'x'"),
        (["-config", "etl.yaml", "-meta", "1"], 2, "-meta does not go with an etl"),
        (["-config", "nosuch.yaml"], 1, "nosuch.yaml: file does not exist"),
        (["-config", "more.yaml"], 1, "more.yaml: no setting named 'etll' (did you mean etl?)"),
    ],
)
def test_the_command_refuses_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("etl.yaml").write_text(yaml.safe_dump({"etl": GOOD}))
    Path("more.yaml").write_text(yaml.safe_dump({"etl": GOOD, "etll": {}}))
    found, _, err = call_shoal(["etl", "-lake", "lake", *words])
    assert (found, message in err, err.count("\n")) == (status, True, 1), err
