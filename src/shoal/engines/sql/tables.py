"""Flat columns as a source of rows again: what was selected becomes a table, and what comes after reads from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from shoal.engines.sql import build
from shoal.engines.sql.frames import Case, Flat, Frame, flatten, shapes_of, source_case
from shoal.engines.sql.nodes import Const, Leaf, Node, NotColumnar, Rec
from shoal.formats.layouts import SHAPE, Form, RecordForm
from shoal.model import types as t
from shoal.model.values import Value

MOST_UNITED = 32
"""Frames that one query reads."""


def united(frames: Sequence[Frame]) -> Frame:
    """The rows of all frames as one, in flat columns, with what they are ordered by."""
    if not 0 < len(frames) <= MOST_UNITED:
        raise NotColumnar("too many layouts for one query")
    shapes = shapes_of([case for frame in frames for case in frame.cases])
    flats = [flatten(frame.cases, shapes, is_exact=True) for frame in frames]
    guarded = {i for flat in flats for i, valid in enumerate(flat.structs) if valid is not None}
    selects = [_select(frame, flat, guarded) for frame, flat in zip(frames, flats, strict=True)]
    made: exp.Query = selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False, copy=False)
    order = tuple(replace(item, sql=build.column(f"o{i}")) for i, item in enumerate(frames[0].order))
    nullable = {case.node.type for frame in frames for case in frame.cases if not _is_there(case.node)}
    return Frame(made.subquery("flat", copy=False), flat_cases(flats[0], guarded, nullable), order=order)


def _select(frame: Frame, flat: Flat, guarded: set[int]) -> exp.Select:
    columns = [*flat.columns(), *frame.order_columns()]
    known = {name for name, _ in columns}
    columns += [(f"v{i}", build.TRUE.copy()) for i in sorted(guarded) if f"v{i}" not in known]
    return frame.select(sorted(columns, key=lambda column: column[0]))


def _is_there(node: Node) -> bool:
    """Whether it is no record that is null or may be."""
    if isinstance(node, Const):
        return node.value.data is not None or not isinstance(node.type.under, t.Record)
    return not isinstance(node, Rec) or node.valid is None


def flat_cases(flat: Flat, guarded: set[int], nullable: set[t.Type]) -> tuple[Case, ...]:
    """The rows of a table of flat columns: `guarded` are the structs that may be null where a shape has them."""
    code = build.column(SHAPE)
    layout = flat.layout
    cases: list[Case] = []
    for i, shape in enumerate(layout.shapes):
        cases.append(source_case(build.among(code, [i]), flat_node(shape, layout.forms[i], guarded)))
        if shape in nullable:
            cases.append(source_case(build.among(code, [-1 - i]), Const(Value(shape, None))))
    return (replace(cases[0], when=True),) if len(cases) == 1 else tuple(cases)


def flat_node(shape: t.Type, form: Form, guarded: set[int]) -> Node:
    """Where the values of a shape are in flat columns."""
    if form is None:
        return Const(Value(shape, None))
    if isinstance(form, RecordForm):
        under = shape.under
        assert isinstance(under, t.Record)
        fields = tuple(flat_node(f.type, inner, guarded) for f, inner in zip(under.fields, form.fields, strict=True))
        valid = build.column(f"v{form.struct.index}") if form.struct.index in guarded else None
        return Rec(shape, fields, valid)
    return Leaf(shape, build.column(f"c{form.index}"))
