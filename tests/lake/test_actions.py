"""Actions: what each kind does to the state, how it is stored, taken back and kept."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from shoal.errors import CorruptData
from shoal.ids import Id, new, to_text
from shoal.lake.actions import (
    Action,
    Add,
    Delete,
    Effect,
    Entry,
    Mask,
    Patch,
    action_of,
    difference,
    effect,
    fold,
    format_action,
    parse_action,
    patch_of,
    reached,
    show_action,
)
from shoal.lake.objects import DataObject, Form, RowMask
from shoal.model.fields import id_value, name_of, named
from shoal.model.values import int64


def an_object(low: int = 0, high: int = 9) -> DataObject:
    return DataObject(new(), int64(low), int64(high), 3, 100, 7, form=Form.COLUMNS)


ONE, TWO, THREE = an_object(), an_object(), an_object()
MASK = RowMask(2, b"bitmap", None, 6, 99)
MASKED = replace(ONE, count=1, mask=MASK)
MASKED_MORE = replace(ONE, count=1, mask=replace(MASK, data=b"", id=new(), checksum=100))
EXAMPLES: tuple[Action, ...] = (Add(ONE), Delete(ONE), Mask(ONE, MASKED), Mask(MASKED, MASKED_MORE))


class Present:
    """A state with some entries."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = {entry.id: entry for entry in entries}

    def has(self, entry: Entry) -> bool:
        now = self.version(entry)
        return now is not None and now.is_same(entry)

    def version(self, entry: Entry) -> Entry | None:
        return self._entries.get(entry.id)


def test_every_kind_of_action_has_an_example_here() -> None:
    assert {type(action) for action in EXAMPLES} == set(get_args(Action))


@pytest.mark.parametrize("action", EXAMPLES, ids=lambda action: type(action).__name__)
def test_an_action_is_read_as_it_was_stored(action: Action) -> None:
    stored = format_action(action, new())
    assert parse_action(stored, "here") == action
    assert name_of(stored) == name_of(show_action(action, new())) == type(action).__name__


@pytest.mark.parametrize("action", EXAMPLES, ids=lambda action: type(action).__name__)
def test_an_action_follows_from_its_effect_and_its_inverse_takes_it_back(action: Action) -> None:
    assert action_of(effect(action)) == action
    patch = Patch((action,))
    assert fold([patch.actions, patch.inverse().actions]).is_empty
    assert patch.inverse().inverse() == patch


def test_an_unknown_action_is_not_passed_over() -> None:
    with pytest.raises(CorruptData, match="unknown action 'Unheard'"):
        parse_action(named("Unheard", ("id", id_value(new()))), "here")


def test_masks_of_one_object_fold_into_one_and_into_its_deletion() -> None:
    first, second = Mask(ONE, MASKED), Mask(MASKED, MASKED_MORE)
    assert fold([[first], [second]]) == Patch((Mask(ONE, MASKED_MORE),))
    assert fold([[first], [second], [Delete(MASKED_MORE)]]) == patch_of(deletes=[ONE])
    assert fold([[Add(ONE)], [first]]) == patch_of([MASKED])
    assert fold([[first], [Mask(MASKED, ONE)]]).is_empty
    assert difference({ONE.id: ONE}, {ONE.id: MASKED}) == Patch((first,))


def test_a_change_of_an_object_conflicts_with_another_mask_of_it() -> None:
    assert Patch((Mask(ONE, MASKED),)).lost_in(Present(MASKED_MORE)) == [ONE]
    assert patch_of(deletes=[ONE]).lost_in(Present(MASKED)) == [ONE]
    assert patch_of([ONE]).present_in(Present(MASKED)) == [ONE]


def test_a_mask_of_its_own_is_reached_and_referred_to() -> None:
    patch = Patch((Mask(MASKED, MASKED_MORE),))
    (mask,) = patch.references()
    assert MASKED_MORE.mask is not None
    assert mask.id == MASKED_MORE.mask.id
    assert mask.key("pool") == f"pool/masks/{to_text(mask.id)}.roaring"
    assert {each.folder for each in reached(patch.actions)} == {"data", "masks"}


def test_an_object_within_its_description_refers_to_nothing_in_the_store() -> None:
    patch = patch_of([replace(ONE, form=Form.ROWS, inline=b"values")])
    assert list(patch.references()) == []
    assert parse_action(format_action(patch.actions[0], new()), "here") == patch.actions[0]


def test_what_one_commit_adds_and_a_later_one_deletes_is_not_in_their_fold() -> None:
    folded = fold([patch_of([ONE, TWO]).actions, patch_of([THREE], [ONE]).actions])
    assert folded == patch_of([TWO, THREE])
    assert fold([patch_of(deletes=[ONE]).actions, patch_of([ONE]).actions]).is_empty
    assert fold([patch_of(deletes=[ONE]).actions, patch_of([TWO]).actions]) == patch_of([TWO], [ONE])


def test_a_difference_leads_from_one_state_to_another() -> None:
    old, new_state = {o.id: o for o in (ONE, TWO)}, {o.id: o for o in (TWO, THREE)}
    assert difference(old, new_state) == patch_of([THREE], [ONE])
    assert difference(old, old).is_empty


def test_a_patch_conflicts_with_a_state_that_has_lost_what_it_removes_or_has_what_it_adds() -> None:
    patch = patch_of([ONE], [TWO])
    assert patch.lost_in(Present(TWO)) == []
    assert patch.lost_in(Present(THREE)) == [TWO]
    assert patch.present_in(Present(ONE, TWO)) == [ONE]
    assert [patch_of([ONE]).needs_state, patch.needs_state] == [False, True]


def test_a_commit_reaches_what_it_adds_and_deletes_and_refers_newly_to_what_it_adds() -> None:
    patch = patch_of([ONE], [TWO])
    assert [each.id for each in reached(patch.actions)] == [ONE.id, TWO.id]
    assert [each.key("pool") for each in patch.references()] == [f"pool/data/{to_text(ONE.id)}.parquet"]


def test_an_effect_names_its_entry() -> None:
    idents: list[Id] = [Effect(None, ONE).id, Effect(ONE, None).id]
    assert idents == [ONE.id, ONE.id]
