"""The protocol of transactions over several pools, explored: each rule that is left out breaks a promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.testing.tiers import IS_LONG
from shoal.testing.transaction_model import Verdict, explore
from shoal.testing.transaction_states import Rules

TIMED = Rules(transactions=((0, 1),), singles=(0,), reads=(0, 1), has_time=True)
BRANCHES = Rules(transactions=((0, 2), (0, 1)), branches=(1, 0), reads=(1, 2, 0), fixed=2, crashes=0, aborts=False)
"""The reader fixes its cut of two pools, and takes in the one that they share with transactions on two branches."""
BESIDE = Rules(transactions=((1, 2), (1, 2)), branches=(1, 0), reads=(1, 2), fixed=1, crashes=0, aborts=False)
"""The cut may depend on a transaction that came later than one that is undecided in it."""
CHAIN = Rules(transactions=((1, 2), (0, 2)), reads=(1, 0, 2), fixed=1, crashes=0)
"""What was undecided in the cut may come into it through other pools."""
RIGHT = {
    "one crash": (Rules(), 100_000),
    "an unknown outcome": (Rules(crashes=0, doubts=1), 20_000),
    "a group of single commits": (Rules(crashes=0, singles=(0,)), 20_000),
    "times of clocks that may be wrong": (TIMED, 10_000),
    "a vacuum": (Rules(crashes=0, has_vacuum=True), 10_000),
    "two attempts at a transaction": (Rules(transactions=((0, 1),), repeats=(0,), reads=(0, 1)), 10_000),
    "two branches of a pool that joins a cut": (BRANCHES, 10_000),
    "two branches of pools, one of which joins a cut": (BESIDE, 10_000),
    "a cut that pools join one after the other": (CHAIN, 50_000),
}
LARGER = {
    "two crashes": Rules(crashes=2),
    "a crash and an unknown outcome": Rules(doubts=1),
    "a crash beside single commits": Rules(singles=(0,)),
    "a crash, an unknown outcome and a vacuum": Rules(doubts=1, has_vacuum=True),
    "single commits to a shared pool, and an unknown outcome": Rules(crashes=0, doubts=1, singles=(1,)),
    "times with two transactions": Rules(crashes=0, has_time=True, reads=(0, 2)),
    "pools that are read in another order": Rules(reads=(2, 1, 0)),
    "two attempts at one of two transactions": Rules(crashes=0, doubts=1, repeats=(0,)),
    "times and two attempts": replace(TIMED, singles=(), repeats=(0,)),
    "two branches of a pool that joins a cut, and a crash": replace(BRANCHES, aborts=True, crashes=1),
    "two branches of pools, one of which joins a cut, and two crashes": replace(BESIDE, aborts=True, crashes=2),
    "a cut that pools join one after the other, and two crashes": replace(CHAIN, crashes=2),
    "three transactions on two branches": replace(
        BESIDE, transactions=((1, 2), (1, 2), (0, 1)), branches=(1, 0, 1), reads=(1, 2, 0)
    ),
}
TWO_FAULTS = [
    LARGER[name]
    for name in (
        "a crash and an unknown outcome",
        "two branches of pools, one of which joins a cut, and two crashes",
    )
]
LEAST = 500_000
"""So many states have worlds with two faults."""
WRONG = {
    "the decision comes before the entries": (Rules(decides_last=False), "an accepted cut shows 1 of 2 parts of T0"),
    "decisions are deleted": (Rules(keeps_decisions=False), "T0 was acknowledged and is 0 times in pool 0"),
    "no dependencies": (Rules(has_dependencies=False), "an accepted cut shows 1 of 2 parts of T0"),
    "dependencies that are not transitive": (
        Rules(is_transitive=False, reads=(0, 2)), "an accepted cut shows T1 without T0, on which it depends",
    ),
    "no second look at undecided transactions": (Rules(looks_again=False), "an accepted cut shows 1 of 2 parts of T0"),
    "a commit beside a pending entry": (
        Rules(resolves_first=False), "T0 was acknowledged and is 0 times in pool 1",
    ),
    "the time of an entry instead of its decision's": (
        replace(TIMED, times_decisions=False),
        "at time 1 1 of 2 parts of T0 are there",
    ),
    "a resolution that is dated before the decision": (
        replace(TIMED, dates_resolutions=False),
        "at time 1 1 of 2 parts of T0 are there",
    ),
    "a decision that does not name its commits": (
        Rules(transactions=((0, 1),), crashes=0, repeats=(0,), names_parts=False),
        "T0 was acknowledged and is 2 times in pool 0",
    ),
    "a pool that joins a cut is read as everything was decided": (
        replace(BRANCHES, hides_what_is_beyond=False), "an accepted cut shows 1 of 2 parts of T1",
    ),
    "what was undecided in a cut comes in with another pool": (
        replace(BESIDE, hides_what_was_undecided=False), "an accepted cut shows 1 of 2 parts of T0",
    ),
    "what came of the undecided comes in with another pool": (
        replace(CHAIN, hides_what_came_of_it=False), "an accepted cut shows 1 of 2 parts of T0",
    ),
    "what a cut depends on is taken for what came of the undecided": (
        replace(BESIDE, knows_the_past=False), "an accepted cut shows 1 of 2 parts of T1",
    ),
    "a reader asks for the undecided before it reads": (
        replace(BESIDE, looks_late=False), "an accepted cut shows 1 of 2 parts of T0",
    ),
    "a vacuum that ignores pending entries": (
        Rules(has_vacuum=True, keeps_pending=False), "T0 was acknowledged, and a vacuum has taken its commits",
    ),
}  # fmt: skip


def told(rules: Rules) -> Verdict:
    verdict = explore(rules)
    print(f"{verdict.states} states, {rules}", *verdict.trace, verdict.violation, sep="\n")
    return verdict


@pytest.mark.parametrize(("rules", "least"), RIGHT.values(), ids=RIGHT)
def test_every_state_keeps_the_promises(rules: Rules, least: int) -> None:
    verdict = told(rules)
    assert verdict.violation is None
    assert verdict.states > least


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="the long tier: minutes, and hundreds of megabytes")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rules", LARGER.values(), ids=LARGER)
def test_larger_worlds_keep_the_promises(rules: Rules) -> None:
    verdict = told(rules)
    assert verdict.violation is None
    assert verdict.states > LEAST or rules not in TWO_FAULTS


@pytest.mark.parametrize(("rules", "broken"), WRONG.values(), ids=WRONG)
def test_a_protocol_that_leaves_out_a_rule_is_caught(rules: Rules, broken: str) -> None:
    verdict = told(rules)
    assert verdict.violation == broken
    assert len(verdict.trace) > 3
