from __future__ import annotations

import io
import re

import pytest

from shoal.cli.lake_writer import LakeOptions, Writer, abbreviate, wrap, wrap_paragraphs
from shoal.model.parse import parse_value

ID = "0x17877e23f6dd50ef3c97e4b54f768b5287181e76"
TEXT = "3M9Gxyymqto0MKofHVkyhscPLpm"
OTHER = "0x0000000000000000000000000000000000000000"
OBJECT = f"{{id:{ID},min:1,max:null,count:3(uint64),size:26}}(=data.Object)"
POOL = f'{{ts:1970-01-01T00:00:00Z,name:"logs",id:{ID},layout:{{order:"desc",keys:[["a","b"],["c"]]}}}}(=pools.Config)'
COMMIT = (
    f"{{id:{ID},parent:{OTHER},retries:0(uint8),"
    'author:"me",date:2024-11-15T14:31:07.25Z,message:"why",meta:null}(=Commit)'
)


def written(*texts: str, head: str = "", color: bool = False) -> str:
    out = io.BytesIO()
    writer = Writer(out, LakeOptions(head=head, color=color, pretty=4))
    for text in texts:
        writer.write(parse_value(text))
    writer.close()
    return out.getvalue().decode()


def test_a_pool_is_a_line_with_its_keys_and_order() -> None:
    assert written(POOL) == f"logs {TEXT} key a.b,c order desc\n"


def test_a_branch_is_a_line_that_says_whether_it_is_in_use() -> None:
    branch = f'{{pool:{POOL},branch:{{ts:1970-01-01T00:00:00Z,name:"main",commit:{ID}}}}}(=lake.BranchMeta)'
    assert written(branch) == f"logs@main commit {TEXT}\n"
    assert written(branch, head="main") == written(branch, head=TEXT) == f"logs@main commit {TEXT} (HEAD)\n"
    tag = f'{{pool:{POOL},tag:{{ts:1970-01-01T00:00:00Z,name:"v1",commit:{ID}}}}}(=lake.TagMeta)'
    assert written(tag) == f"logs@v1 commit {TEXT}\n"


def test_an_object_has_its_keys_below_it() -> None:
    assert written(OBJECT) == f"{TEXT} 26B bytes 3 records\n   min 1 max null\n"


def test_a_partition_has_its_objects_below_it() -> None:
    other = OBJECT.replace("min:1", 'min:"a"')
    mixed = f"{{min:1,max:null,objects:[{OBJECT},{other}]}}(=meta.Partition)"
    assert written(mixed) == (
        "min 1 max null\n"
        f"  {TEXT} 26B bytes 3 records\n     min 1 max null\n"
        f'  {TEXT} 26B bytes 3 records\n     min "a" max null\n'
    )


def test_a_commit_tells_the_branches_that_point_at_it() -> None:
    block = f"commit {TEXT}{{}}\nAuthor: me\nDate:   2024-11-15T14:31:07Z\n\n    why\n\n"
    tips = [f'{{Name:"{name}",Commit:{ID}}}(=lake.BranchTip)' for name in ("b1", "main")]
    assert written(COMMIT) == block.format("")
    assert written(*tips, COMMIT) == block.format(" (b1, main)")
    assert written(*tips, COMMIT, head="main") == block.format(" (b1, HEAD -> main)")
    assert written(COMMIT, head=TEXT) == block.format(" (HEAD)")
    tags = [f'{{Name:"{name}",Commit:{ID}}}(=lake.TagTip)' for name in ("v1", "v2")]
    assert written(*tags, COMMIT) == block.format(" (tag: v1, tag: v2)")
    assert written(*tags[:1], *tips, COMMIT, head="main") == block.format(" (b1, HEAD -> main, tag: v1)")
    assert written(COMMIT, color=True).startswith(f"\x1b[33mcommit {TEXT}\x1b[0m\n")


def test_the_actions_of_a_commit_are_listed_below_it() -> None:
    add, delete = f"{{commit:{ID},object:{OBJECT}}}(=Add)", f"{{commit:{ID},id:{OTHER}}}(=Delete)"
    actions = f"    Add {TEXT} 26B bytes 3 records\n    Delete {'0' * 27}\n"
    assert written(add, delete, COMMIT) == f"{written(COMMIT)}{actions}\n"
    assert written(add, delete) == actions


def test_a_commit_without_a_message_has_none() -> None:
    assert written(COMMIT.replace("why", "")).endswith("Z\n\n")


def test_messages_are_wrapped_evenly_and_indented() -> None:
    message = "loaded 2 data objects\\n\\n  " + " ".join(["word"] * 20) + "\\n"
    lines = written(COMMIT.replace("why", message)).split("\n")[4:]
    assert lines == ["    loaded 2 data objects", "", f"    {'word ' * 15}word", f"    {'word ' * 3}word", "", ""]


def test_a_change_has_its_mark_in_front() -> None:
    assert written('{mark:"+",value:{a:1}}(=lake.Change)') == "+ {a:1}\n"
    assert written(f'{{mark:"-",value:{OBJECT}}}(=lake.Change)') == f"- {TEXT} 26B bytes 3 records\n   min 1 max null\n"


@pytest.mark.parametrize(
    "text",
    [
        '{name:"logs"}(=branch)',
        "1.2.3.4",
        '{name:"logs"}(=pools.Config)',
        '{id:1,author:"me"}(=Commit)',
        f'{{id:{ID},min:1,max:2,count:"x",size:1}}(=data.Object)',
        "{min:1,max:2,objects:3}(=meta.Partition)",
        f'{{name:"a",id:{ID},layout:{{order:"asc",keys:[1]}}}}(=pools.Config)',
        "null(Commit={id:bytes})",
    ],
)
def test_any_other_value_is_written_as_zson(text: str) -> None:
    assert written(text) == f"{text}\n"


@pytest.mark.parametrize(
    "size, text",
    [
        (0, "0B"), (9999, "9999B"), (10_000, "10KB"), (33_493, "33.49KB"), (2_000_000, "2MB"), (2_500_000, "2.50MB"),
        (10**9, "1GB"), (10**12, "1TB"), (3 * 10**15, "3PB"),
    ],
)  # fmt: skip
def test_sizes_are_abbreviated(size: int, text: str) -> None:
    assert abbreviate(size) == text


def test_a_short_paragraph_stays_one_line() -> None:
    assert wrap("to be or not to be", 80) == "to be or not to be"


def test_lines_are_as_even_as_can_be_and_the_last_one_may_be_short() -> None:
    assert wrap("to be or not to be, that is the question", 16) == "to be or not to\nbe, that is the\nquestion"
    assert wrap("aaa bb cc ddddd", 6) == "aaa\nbb cc\nddddd"


@pytest.mark.parametrize("text", ["x" * 200, f"a {'x' * 200}", f"{'x' * 200} b", f"a {'x' * 200} b"])
def test_a_word_that_is_too_long_gets_a_line_of_its_own(text: str) -> None:
    assert wrap(text, 80) == text.replace(" ", "\n")


def test_no_line_is_longer_than_the_width_if_no_word_is_and_no_word_is_lost() -> None:
    text = " ".join("x" * (1 + i * 7 % 13) for i in range(300))
    lines = wrap(text, 40).split("\n")
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == text


def test_paragraphs_are_kept_apart_and_every_line_is_indented() -> None:
    assert wrap_paragraphs("one\ntwo\n\n  three\n", 80, "    ") == "    one two\n\n    three"
    assert wrap_paragraphs("", 80, "    ") == ""


def test_what_others_have_written_cannot_move_the_cursor() -> None:
    commit = COMMIT.replace('"me"', '"m\\u001b[2J\\ne"').replace('"why"', '"one\\ntwo\\u001b]0;x\\u0007\u202e"')
    text = written(commit)
    assert "Author: m\\x1b[2J\\ne\n" in text
    assert "    one two\\x1b]0;x\\x07\\u202e\n" in text
    assert written(POOL.replace('"logs"', '"lo\\u009bgs"').replace('"c"', '"\u202e"')).startswith("lo\\x9bgs ")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
