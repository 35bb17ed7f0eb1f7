from __future__ import annotations

import pickle
from typing import get_args

import pytest

from shoal.engines.interp.engine import run_program
from shoal.lang import plan
from shoal.model.text import format_value
from shoal.testing.queries import compile_program, parse_values

TRAITS = {
    plan.DefaultScan: {"is_scan"},
    plan.FileScan: {"is_scan"},
    plan.HttpScan: {"is_scan"},
    plan.PoolScan: {"is_scan"},
    plan.MetaScan: {"is_scan"},
    plan.Physical: {"is_scan"},
    plan.Pass: {"is_row_wise", "keeps_count", "keeps_values"},
    plan.Filter: {"is_row_wise", "keeps_values"},
    plan.Yield: {"is_row_wise", "multiplies"},
    plan.Cut: {"is_row_wise", "keeps_count"},
    plan.Put: {"is_row_wise", "keeps_count"},
    plan.Drop: {"is_row_wise", "keeps_count"},
    plan.Rename: {"is_row_wise", "keeps_count"},
    plan.Sort: {"buffers"},
    plan.Head: {"keeps_values", "limits"},
    plan.Tail: {"keeps_values", "limits", "buffers"},
    plan.Top: {"limits", "buffers"},
    plan.TopK: {"limits", "buffers"},
    plan.Uniq: {"keeps_values"},
    plan.Summarize: {"buffers"},
    plan.Fuse: {"buffers"},
    plan.Shape: {"buffers"},
    plan.Explode: {"is_row_wise", "multiplies"},
    plan.Debug: {"keeps_count", "keeps_values"},
    plan.Output: set(),
    plan.Load: {"writes"},
    plan.Fork: {"splits", "buffers", "multiplies"},
    plan.Switch: {"splits", "buffers", "multiplies"},
    plan.Merge: set(),
    plan.Join: {"buffers", "multiplies"},
    plan.Over: {"is_row_wise", "multiplies"},
}


def test_every_operator_states_its_own_traits() -> None:
    for op in get_args(plan.Op):
        assert isinstance(vars(op)["traits"], plan.Traits), op


def test_every_trait_of_every_operator_is_pinned() -> None:
    stated = {op: {name for name, has in op.traits._asdict().items() if has} for op in get_args(plan.Op)}
    assert stated == TRAITS


def test_traits_are_of_the_operator_and_not_among_its_fields() -> None:
    head = plan.Head(3)
    assert repr(head) == "Head(count=3)"
    assert pickle.loads(pickle.dumps(head)) == head
    assert head.traits.limits


INPUT = '{a:1,b:[1,2],s:"x"} {a:2,b:["y",3],s:"z"} {a:2,b:null([int64])} "text" {c:{a:3}}'
ROW_WISE = {
    "pass": plan.Pass,
    "where a==2": plan.Filter,
    "yield a, s": plan.Yield,
    "cut a, s": plan.Cut,
    "put d:=a": plan.Put,
    "drop a": plan.Drop,
    "rename z:=a": plan.Rename,
    "explode b, s by string as one": plan.Explode,
    "over b => (sum(this))": plan.Over,
}


def test_every_row_wise_operator_has_a_program_below() -> None:
    assert set(ROW_WISE.values()) == {op for op in get_args(plan.Op) if op.traits.is_row_wise}


@pytest.mark.parametrize("text", ROW_WISE)
def test_a_row_wise_operator_takes_values_one_by_one(text: str) -> None:
    program = compile_program(text)
    values = parse_values(INPUT)
    together = list(map(format_value, run_program(program, values)))
    apart = [format_value(one) for value in values for one in run_program(program, [value])]
    assert together == apart
    assert together
