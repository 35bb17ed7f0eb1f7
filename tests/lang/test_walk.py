from __future__ import annotations

from shoal.lang import plan
from shoal.lang.walk import nodes, operators, rewrite, rewrite_from_outside, rewrite_sequences
from shoal.testing.queries import compile_program


def test_sequences_are_rewritten_from_outside() -> None:
    program = compile_program("fork (=> head 1 => over a => (head 2)) | yield (over b | head 3)")
    seen: list[plan.Seq] = []

    def change(seq: plan.Seq) -> plan.Seq:
        seen.append(seq)
        return (*seq, plan.Pass())

    made = rewrite_from_outside(program, change)
    assert seen[0] == program.body
    assert [seq[0] for seq in seen[1:]] == [plan.Head(1), seen[2][0], plan.Head(2), plan.Head(3)]
    assert isinstance(seen[2][0], plan.Over)
    assert sum(isinstance(node, plan.Pass) for node in nodes(made)) == len(seen) == 5


def test_sequences_are_rewritten_from_inside() -> None:
    program = compile_program("fork (=> head 1 => over a => (head 2)) | yield (over b | head 3)")
    seen: list[plan.Op] = []

    def change(seq: plan.Seq) -> plan.Seq:
        seen.append(seq[0])
        return seq

    assert rewrite_sequences(program, change) == program
    assert [op.count for op in seen if isinstance(op, plan.Head)] == [2, 1, 3]
    assert seen[-1] == program.body[0]


def test_a_rewrite_that_changes_nothing_returns_the_same_plan() -> None:
    program = compile_program("where a==1 | cut b | sort c")
    assert rewrite(program, lambda node: node) is program


def test_a_rewrite_reaches_nodes_in_tuples_and_functions() -> None:
    program = compile_program("func f(x): (x+1) put a:=f(b), c:=d")

    def renamed(node: plan.Node) -> plan.Node:
        return plan.This(tuple(name.upper() for name in node.path)) if isinstance(node, plan.This) else node

    changed = rewrite(program, renamed)
    assert {node.path for node in nodes(changed) if isinstance(node, plan.This)} == {("A",), ("B",), ("C",), ("D",)}


def test_operators_are_met_wherever_they_stand() -> None:
    program = compile_program("fork (=> sort a => over b => (head 1)) | yield (over b | tail 1)")
    kinds = {type(op) for op in operators(program)}
    assert kinds >= {plan.Fork, plan.Sort, plan.Over, plan.Head, plan.Yield, plan.Tail}
