"""`fork` and `switch`: each leg is the frames of its rows. In which order they come together means nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shoal.engines.sql import build
from shoal.engines.sql.build import Cond, both, either, negated
from shoal.engines.sql.comparisons import compare_literal
from shoal.engines.sql.expressions import truth, value
from shoal.engines.sql.frames import Frame, Item, passing
from shoal.engines.sql.nodes import Node, NotColumnar, is_error, is_known_error
from shoal.lang import plan
from shoal.model.values import MISSING
from shoal.model.values import is_error as is_error_value

Run = Callable[[plan.Seq, Sequence[Frame]], Sequence[Frame]]
"""Runs operators on rows."""


def forked(op: plan.Fork, frames: Sequence[Frame], run: Run) -> list[Frame]:
    """Every row into every leg."""
    return _together([run(leg, frames) for leg in op.legs])


def switched(op: plan.Switch, frames: Sequence[Frame], run: Run) -> list[Frame]:
    """Every row into the first leg that it fits; one without a test takes what is left, wherever it stands."""
    left = list(frames)
    legs: list[Sequence[Frame]] = [()] * len(op.cases)
    if op.expr is not None:
        subject = op.expr
        _, left = _parted(left, lambda node: _is_missing(subject, node))
    for i, case in enumerate(op.cases):
        if case.expr is not None:
            taken, left = _parted(left, _test(op.expr, case.expr))
            legs[i] = run(case.body, taken)
    default = next((i for i, case in enumerate(op.cases) if case.expr is None), None)
    if default is not None:
        legs[default] = run(op.cases[default].body, left)
    return _together(legs)


def _test(subject: plan.Expr | None, wanted: plan.Expr) -> Callable[[Node], Cond]:
    """Whether a row fits a leg."""
    if subject is None:
        return lambda node: truth(wanted, node)
    if not isinstance(wanted, plan.Literal) or is_error_value(wanted.value):
        raise NotColumnar("a case that is not a plain value")
    return lambda node: either(
        *(
            both(o.when, compare_literal("==", o.node, wanted.value))
            for o in value(subject, node)
            if not is_error(o.node)
        )
    )


def _is_missing(subject: plan.Expr, node: Node) -> Cond:
    return either(*(o.when for o in value(subject, node) if is_known_error(o.node, MISSING)))


def _parted(frames: Sequence[Frame], test: Callable[[Node], Cond]) -> tuple[list[Frame], list[Frame]]:
    """The rows that pass a test, and all others, whatever the test makes of them."""
    taken, left = [], []
    for frame in frames:
        verdicts = [test(case.node) for case in frame.cases]
        taken.append(passing(frame, verdicts))
        left.append(passing(frame, [negated(verdict) for verdict in verdicts]))
    return taken, left


def _together(legs: Sequence[Sequence[Frame]]) -> list[Frame]:
    """The rows of all legs; what tells their places apart is brought to one length."""
    made = [(number, frame) for number, leg in enumerate(legs) for frame in leg if frame.cases]
    longest = max((len(frame.order) for _, frame in made), default=0)

    def placed(number: int, frame: Frame) -> Frame:
        numbers = [0] * (longest - len(frame.order)) + [number]
        return replace(frame, order=(*frame.order, *(Item(build.integer(n)) for n in numbers)))

    return [placed(number, frame) for number, frame in made]
