"""Actions: what a commit does, as data. All that the lake has to know about a kind of action is in this module.

The state at a commit is a set of entries, each with an id. An action takes one entry from `before` to `after`, and this
pair, its effect, says how it folds into the state, how it is taken back and what it conflicts with. To add an action:
define it, add it to `Action`, and complete the functions here that end in `assert_never`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, assert_never

from shoal.errors import CorruptData
from shoal.ids import Id, to_text
from shoal.lake.objects import DATA, LINEAGE, MASKS, DataObject, format_object, parse_object, show_object
from shoal.model.fields import get, id_value, name_of, named
from shoal.model.node import frozen
from shoal.model.values import Value, int64


@frozen
class Add:
    """A data object comes."""

    object: DataObject


@frozen
class Delete:
    """A data object goes. Its bytes stay for older commits."""

    object: DataObject


@frozen
class Mask:
    """Rows of a data object are hidden, or shown again. Its bytes stay as they are."""

    before: DataObject
    object: DataObject


Action = Add | Delete | Mask
Entry = DataObject
"""What the state at a commit is made of, as it is at that commit."""
FOLDERS = (DATA, MASKS, LINEAGE)
"""Where the objects lie that entries refer to; a vacuum looks through these folders."""


class Effect(NamedTuple):
    """What an action does to an entry. None: it is not there."""

    before: Entry | None
    after: Entry | None

    @property
    def id(self) -> Id:
        """The entry that changes."""
        entry = self.after or self.before
        assert entry is not None
        return entry.id


class Stored(NamedTuple):
    """An object in the store that an entry refers to."""

    folder: str
    id: Id
    suffix: str

    def key(self, pool: str) -> str:
        """Its key in the store."""
        return f"{pool}/{self.folder}/{to_text(self.id)}.{self.suffix}"


def effect(action: Action) -> Effect:
    """How an action folds into the state."""
    match action:
        case Add(o):
            return Effect(None, o)
        case Delete(o):
            return Effect(o, None)
        case Mask(before, after):
            return Effect(before, after)
        case _:
            assert_never(action)


def mapped(action: Action, change: Callable[[Entry], Entry]) -> Action:
    """An action with other descriptions of its entries."""
    before, after = effect(action)
    other = action_of(Effect(before and change(before), after and change(after)))
    assert other is not None
    return other


def action_of(change: Effect) -> Action | None:
    """The action that has an effect; None if there is nothing to do."""
    match change:
        case Effect(None, DataObject() as o):
            return Add(o)
        case Effect(DataObject() as o, None):
            return Delete(o)
        case Effect(DataObject() as before, DataObject() as after) if not before.is_same(after):
            return Mask(before, after)
        case _:
            return None


def stored(entry: Entry) -> Iterator[Stored]:
    """What an entry reaches in the store: a vacuum keeps it, and a commit that adds the entry needs it."""
    if entry.inline is None and entry.external is None:
        yield Stored(DATA, entry.id, entry.form.value)
    if entry.mask is not None and entry.mask.id is not None:
        yield Stored(MASKS, entry.mask.id, "roaring")
    if entry.lineage is not None and not entry.lineage.data:
        yield Stored(LINEAGE, entry.id, "rows")


# ---- as values


def _rank(action: Action) -> int:
    """Actions are stored in this order."""
    match action:
        case Add():
            return 0
        case Delete():
            return 1
        case Mask():
            return 2
        case _:
            assert_never(action)


def format_action(action: Action, commit: Id) -> Value:
    """An action as a commit stores it."""
    match action:
        case Add(o):
            return named("Add", ("commit", id_value(commit)), ("object", format_object(o)))
        case Delete(o):
            return named("Delete", ("commit", id_value(commit)), ("id", id_value(o.id)), ("object", format_object(o)))
        case Mask(before, o):
            both = ("object", format_object(o)), ("before", format_object(before))
            return named("Mask", ("commit", id_value(commit)), ("id", id_value(o.id)), *both)
        case _:
            assert_never(action)


def parse_action(value: Value, where: str) -> Action:
    """The action in a stored record. An unknown one is an error: to pass over it would change the state."""
    match name_of(value):
        case "Add":
            return Add(parse_object(get(value, "object", where), where))
        case "Delete":
            return Delete(parse_object(get(value, "object", where), where))
        case "Mask":
            return Mask(*(parse_object(get(value, name, where), where) for name in ("before", "object")))
        case name:
            raise CorruptData(f"{where}: unknown action {name!r} (written by a newer version?)")


def show_action(action: Action, commit: Id) -> Value:
    """An action as meta-queries show it."""
    match action:
        case Add(o):
            return named("Add", ("commit", id_value(commit)), ("object", show_object(o)))
        case Delete(o):
            return named("Delete", ("commit", id_value(commit)), ("id", id_value(o.id)))
        case Mask(before, o):
            hidden = ("hidden", int64(o.hidden - before.hidden))
            return named("Mask", ("commit", id_value(commit)), ("id", id_value(o.id)), hidden)
        case _:
            assert_never(action)


# ---- several of them


class State(Protocol):
    """Knows which entries there are."""

    def has(self, entry: Entry, /) -> bool:
        """Whether an entry is there as it is described."""

    def version(self, entry: Entry, /) -> Entry | None:
        """The entry of the same id as it is there; None if it is not."""


@frozen
class Patch:
    """Actions that are done together. Each changes another entry."""

    actions: tuple[Action, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.actions

    @property
    def adds(self) -> tuple[DataObject, ...]:
        """The data objects that come."""
        return added(self.actions)

    @property
    def deletes(self) -> tuple[DataObject, ...]:
        """The data objects that go."""
        return deleted(self.actions)

    def effects(self) -> Iterator[Effect]:
        """What happens to each entry."""
        return map(effect, self.actions)

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The data objects of which rows are hidden or shown."""
        return tuple(action for action in self.actions if isinstance(action, Mask))

    def inverse(self) -> Patch:
        """The patch that takes this one back."""
        return patch_to(Effect(after, before) for before, after in self.effects())

    def lost_in(self, state: State) -> list[Entry]:
        """Conflicts: entries that this patch changes and that are no longer there."""
        return [before for before, _ in self.effects() if before is not None and not state.has(before)]

    def present_in(self, state: State) -> list[Entry]:
        """Conflicts: entries that this patch brings back and that are there."""
        return [after for before, after in self.effects() if before is None and after and state.version(after)]

    @property
    def needs_state(self) -> bool:
        """Whether it may conflict: it changes entries that have to be there."""
        return any(before is not None for before, _ in self.effects())

    def references(self) -> Iterator[Stored]:
        """The objects in the store that it newly refers to."""
        for before, after in self.effects():
            old = set() if before is None else set(stored(before))
            yield from () if after is None else (each for each in stored(after) if each not in old)

    def and_then(self, *others: Patch) -> Patch:
        """The sum of this patch and later ones."""
        return fold([self.actions, *(other.actions for other in others)])


NOTHING = Patch()


def patch_of(adds: Iterable[DataObject] = (), deletes: Iterable[DataObject] = (), masks: Iterable[Mask] = ()) -> Patch:
    """The patch that adds some data objects, deletes others, and hides rows of others."""
    return Patch((*map(Add, adds), *map(Delete, deletes), *masks))


def patch_to(changes: Iterable[Effect]) -> Patch:
    """The patch with some effects, each on another entry; those that change nothing are not in it."""
    actions = [action for each in changes if (action := action_of(each)) is not None]
    return Patch(tuple(sorted(actions, key=_rank)))


def added(actions: Iterable[Action]) -> tuple[DataObject, ...]:
    """The data objects that actions add."""
    return tuple(action.object for action in actions if isinstance(action, Add))


def deleted(actions: Iterable[Action]) -> tuple[DataObject, ...]:
    """The data objects that actions delete."""
    return tuple(action.object for action in actions if isinstance(action, Delete))


def fold(commits: Iterable[Sequence[Action]]) -> Patch:
    """The sum of changes, oldest first. What one adds and a later one deletes is not in it."""
    effects: dict[Id, Effect] = {}
    for actions in commits:
        for action in actions:
            now = effect(action)
            earlier = effects.pop(now.id, None)
            if earlier is not None:
                now = Effect(earlier.before, now.after)
            if action_of(now) is not None:
                effects[now.id] = now
    return patch_to(effects.values())


def difference(old: Mapping[Id, Entry], new: Mapping[Id, Entry]) -> Patch:
    """What has to change to come from some entries to others."""
    gone = (Effect(entry, None) for ident, entry in old.items() if ident not in new)
    return patch_to([*(Effect(old.get(ident), entry) for ident, entry in new.items()), *gone])


def touched(actions: Iterable[Action]) -> Iterator[Entry]:
    """The entries that actions change, as they are before and after."""
    for action in actions:
        yield from (entry for entry in effect(action) if entry is not None)


def reached(actions: Iterable[Action]) -> Iterator[Stored]:
    """All that actions refer to, whether it comes or goes: a commit and its parent can both be read."""
    for entry in touched(actions):
        yield from stored(entry)


def describe(entries: Iterable[Entry | Stored]) -> str:
    """Some entries, for an error: the first few ids."""
    listed = list(entries)
    shown = ", ".join(to_text(entry.id) for entry in listed[:3])
    return shown if len(listed) <= 3 else f"{shown} and {len(listed) - 3} more"
