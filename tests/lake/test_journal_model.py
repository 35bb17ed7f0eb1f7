"""The journal protocol, explored: every state keeps the promises, and each rule that is left out breaks one.

A rule that no test needs would be a rule for nothing; so every one of them has a test that leaves it out.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

import pytest

from shoal.testing.journal_model import Rules, Verdict, explore, start, steps
from shoal.testing.tiers import IS_LONG

TWICE = "an operation is in the history twice"
LOST = "an acknowledged operation is not in the history"


def told(rules: Rules, *, progress: bool = False) -> Verdict:
    """What an exploration found, and how long it took, for whoever asks pytest to show it."""
    began = time.monotonic()
    verdict = explore(rules, progress=progress)
    print(f"{verdict.states} states, {verdict.classes} of them different, {time.monotonic() - began:.1f} s, {rules}")
    print(*verdict.trace, verdict.violation, sep="\n")
    return verdict


def test_three_writers_with_two_faults_keep_every_promise_in_every_state() -> None:
    verdict = told(Rules(writers=3, operations=2, faults=2))
    assert verdict.violation is None
    assert verdict.states > 2_000_000


SMALLER = [
    (Rules(writers=2, has_head=True), True),
    (Rules(writers=3, faults=1), True),
    (Rules(writers=4, operations=1, faults=1), True),
    (Rules(writers=3, operations=1, attempts=2, faults=3), True),
    (Rules(writers=2, faults=1, trims=True), True),
    (Rules(writers=2, faults=2, trims=True), False),
    (Rules(writers=3, operations=1, faults=2, trims=True), False),
    (Rules(writers=3, operations=1, faults=2, trims=True, attempts=2), False),
]


@pytest.mark.parametrize("rules, progress", SMALLER)
def test_smaller_worlds_with_head_trimming_and_attempts_at_once_keep_every_promise(
    rules: Rules, progress: bool
) -> None:
    """With `progress`, one promise more: whoever is alive can finish."""
    verdict = told(rules, progress=progress)
    assert verdict.violation is None
    assert verdict.states > 10_000


WITH_HEAD = Rules(writers=2, has_head=True)
TRIMMED = Rules(writers=2, trims=True)
WRONG = {
    "an unknown outcome is taken for a failure and tried anew": (
        Rules(reads_back=False, compares=False), TWICE, 7,  # to compare in the new try would be to read back
    ),
    "what is read back is compared, what is met while scanning is not": (Rules(compares=False), TWICE, 8),
    "HEAD is believed": (Rules(has_head=True, probes_past_head=False), LOST, 8),
    "success is reported before the put": (Rules(acknowledges_last=False), LOST, 2),
    "a repeat begins at HEAD, past its own entry": (replace(WITH_HEAD, repeats_from_the_start=False), TWICE, 12),
    "a second attempt begins at HEAD, past the entry of the first": (
        Rules(writers=2, operations=1, attempts=2, has_head=True), TWICE, 7,
    ),
    "the boundary is not checked after a put": (replace(TRIMMED, checks_boundary=False), LOST, 14),
    "the op-ids of trimmed entries are forgotten": (replace(TRIMMED, keeps_trimmed=False), TWICE, 15),
    "the boundary is not checked before a put": (replace(TRIMMED, looks_back=False), TWICE, 16),
    "entries are deleted before the tail moves": (
        replace(TRIMMED, moves_tail_first=False), "the history has a gap", 10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("rules, violation, length", WRONG.values(), ids=WRONG)
def test_a_protocol_that_leaves_out_a_rule_is_caught(rules: Rules, violation: str, length: int) -> None:
    verdict = told(rules)
    assert (verdict.violation, len(verdict.trace)) == (violation, length)


def test_the_trace_tells_the_shortest_way_to_the_violation() -> None:
    assert told(Rules(reads_back=False, compares=False)).trace == (
        " 1 a begins: []",
        " 2 a finds the end: []",
        " 3 a puts, lands, hears nothing: [a1]",
        " 4 a tries again: [a1]",
        " 5 a passes an entry: [a1]",
        " 6 a finds the end: [a1]",
        " 7 a puts, lands: [a1 a1]",
    )


def test_whoever_believes_head_is_blocked_by_a_writer_that_died_before_it_wrote_head() -> None:
    """Nothing arrives late, so that HEAD never goes back: nothing is lost, and nobody ever gets on."""
    rules = Rules(writers=2, operations=1, faults=1, has_late=False, has_head=True, probes_past_head=False)
    assert told(rules).violation is None
    verdict = told(rules, progress=True)
    assert verdict.violation == "a writer that is alive cannot finish"
    assert any("dies" in step for step in verdict.trace)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(writers=2, faults=1),
        Rules(writers=3, operations=1, faults=1),
        Rules(writers=2, operations=1, has_head=True, trims=True),
    ],
)
def test_states_that_differ_only_in_names_are_counted_one_by_one(rules: Rules) -> None:
    """Against a search that knows nothing of names."""
    seen = {start(rules)}
    queue = deque(seen)
    while queue:
        for step in steps(rules, queue.popleft()):
            if step.after not in seen:
                seen.add(step.after)
                queue.append(step.after)
    verdict = told(rules)
    assert (verdict.states, verdict.violation) == (len(seen), None)
    assert verdict.classes < verdict.states


LONG = [
    Rules(writers=3, operations=2, faults=3),
    Rules(writers=3, operations=2, faults=1, has_head=True),
    Rules(writers=2, operations=2, faults=3, trims=True),
    Rules(writers=2, operations=2, faults=2, trims=True, has_head=True),
    Rules(writers=3, operations=2, faults=1, trims=True),
    Rules(writers=3, operations=1, faults=3, trims=True),
    Rules(writers=4, operations=1, faults=2, attempts=2),
]


@pytest.mark.long
@pytest.mark.skipif(not IS_LONG, reason="the long tier: minutes, and hundreds of megabytes")
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("rules", LONG)
def test_larger_worlds_keep_every_promise_in_every_state(rules: Rules) -> None:
    verdict = told(rules)
    assert verdict.violation is None
    assert verdict.states > 100_000
