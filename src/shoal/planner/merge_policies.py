"""Merge policies: what becomes of records with equal keys in a pool that is not keyed.

    dedupe                            equal records are one
    replace by FIELD                  of the records of a key, the one with the greatest value of a field
    aggregate AGGREGATES [by FIELDS]  such as sum(n), max(ts) by host, day: one record for each group
    program PROGRAM                   what a program makes of the records of a key

Reads and compactions apply a policy; `shoal.lake.merging` says to what. Records that a policy cannot group, or whose
values it cannot take, stay as they are: nothing is lost that the policy does not speak of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cmp_to_key, lru_cache
from typing import Any, TypeAlias

from shoal.engines.aggregates import AGGREGATES
from shoal.engines.interp.aggregates.contract import Limits
from shoal.engines.interp.aggregates.numeric import KINDS
from shoal.engines.interp.engine import evaluate, run_program
from shoal.engines.interp.operators.records import nested_record
from shoal.engines.interp.operators.summarize import exact_key
from shoal.errors import InvalidInput, ShoalError
from shoal.lake.keys import Path, SortKey, getter, parse_sort_key
from shoal.lake.loaded_records import GroupKey
from shoal.lake.merging import Group
from shoal.lake.pool_config import PoolConfig
from shoal.lang import plan
from shoal.lang.compile import compile_program
from shoal.lang.field_paths import check_record, path_text
from shoal.lang.parser import parse
from shoal.lang.rules.fold_constants import CHANGING
from shoal.lang.rules.project_fields import paths_in
from shoal.lang.walk import nodes
from shoal.model import types as t
from shoal.model.node import frozen
from shoal.model.order import compare_values
from shoal.model.text import format_value
from shoal.model.values import Value, is_error
from shoal.model.zcode import encode
from shoal.suggestions import did_you_mean

_HELP = "dedupe; replace by FIELD; aggregate sum(n), max(ts) by FIELDS; program PROGRAM"
Groups: TypeAlias = dict[Any, tuple[list[Value], list[Value]]]
"""The keys and the records of groups, by what is the same in each."""


class _Grouping:
    """What all policies have in common: what they make of records is what they make of each group of them."""

    __slots__ = ()

    def groups(self, records: list[Value]) -> Iterable[Group]:
        """The groups of records, and what becomes of each."""
        raise NotImplementedError

    def merged(self, records: list[Value]) -> Iterable[Value]:
        """What becomes of all records."""
        return [value for group in self.groups(records) for value in group.results]

    def verify(self, records: list[Value], result: list[Value]) -> None:
        """It always keeps its word."""


@frozen
class Dedupe(_Grouping):
    """Equal records are one."""

    fields: tuple[Path, ...] = ((),)
    """What decides which group a record is in."""

    def merged(self, records: list[Value]) -> Iterable[Value]:
        """Each record once."""
        return records if len(records) == 1 else dict.fromkeys(records)

    def groups(self, records: list[Value]) -> Iterable[Group]:
        """Equal records, and one of them."""
        same: dict[Value, list[Value]] = {}
        for record in records:
            same.setdefault(record, []).append(record)
        return [Group(members, [record]) for record, members in same.items()]


@frozen
class Replace(_Grouping):
    """Of the records of a key, the newest: the one with the greatest value of a field."""

    fields: tuple[Path, ...]
    newest: Path

    def groups(self, records: list[Value]) -> Iterable[Group]:
        """The newest of each key. Of records that are as new as each other, the one that sorts last."""
        if len(records) == 1:
            return [Group(records, records)]
        groups, others = _grouped(records, self.fields)
        age = getter(self.newest)

        def newer(a: Value, b: Value) -> int:
            return _compare_ages(age(a), age(b)) or _compare_exactly(a, b)

        merged = [Group(members, [max(members, key=cmp_to_key(newer))]) for _, members in groups.values()]
        return [*merged, *_alone(others)]


@frozen
class Aggregate(_Grouping):
    """One record for each group: its keys, and aggregates of fields, each in the place of the field."""

    fields: tuple[Path, ...]
    aggregates: tuple[tuple[str, Path], ...]

    def groups(self, records: list[Value]) -> Iterable[Group]:
        """A record for each group; those with a value that an aggregate would pass over stay as they are."""
        groups, others = _grouped(records, self.fields, self.taken())
        merged = [Group(members, [self._record(keys, members)]) for keys, members in groups.values()]
        return [*merged, *_alone(others)]

    def taken(self) -> Callable[[Value], tuple[bool, ...] | None]:
        """Which of the values are dates, which do not mix with numbers; None if one is not taken at all."""
        finders = [(getter(path), _TAKES[name]) for name, path in self.aggregates]

        def taken(record: Value) -> tuple[bool, ...] | None:
            values = [find(record) for find, _ in finders]
            if any(v is not None and not takes(v) for v, (_, takes) in zip(values, finders, strict=True)):
                return None
            return tuple(v is not None and v.under().type is t.DATE for v in values)

        return taken

    def _record(self, keys: list[Value], members: list[Value]) -> Value:
        fields = list(zip(self.fields, keys, strict=True))
        for name, path in self.aggregates:
            state, find = AGGREGATES[name].state(_LIMITS), getter(path)
            for value in map(find, members):
                if value is not None:
                    state.consume(value)
            result = state.result()
            if is_error(result):
                raise InvalidInput(
                    f"merge policy: {name}({path_text(path)}) has too many digits for the records of {_shown(keys)} "
                    "(delete some of them: shoal delete -where)"
                )
            fields.append((path, result))
        return nested_record(fields)


@frozen
class Apply(_Grouping):
    """What a program makes of the records of a key."""

    fields: tuple[Path, ...]
    program: plan.Program

    def groups(self, records: list[Value]) -> Iterable[Group]:
        """What the program gives for each key. It gets the records in an order that depends on nothing but them."""
        groups, others = _grouped(records, self.fields)
        return [*(Group(members, self._applied(members)) for _, members in groups.values()), *_alone(others)]

    def _applied(self, members: list[Value]) -> list[Value]:
        members = sorted(members, key=cmp_to_key(_compare_exactly))
        result = list(run_program(self.program, members))
        (same,) = _grouped(members[:1], self.fields)[0]
        groups, others = _grouped(result, self.fields)
        if others or not groups.keys() <= {same}:
            stray = others[0] if others else next(r[0] for k, (_, r) in groups.items() if k != same)
            raise InvalidInput(
                f"merge policy: the program made {format_value(stray)} of records with another key, such as "
                f"{format_value(members[0])} (its results have to keep {_listed(self.fields)})"
            )
        return result

    def verify(self, records: list[Value], result: list[Value]) -> None:
        """Fail if the program makes another result of what it made of a part of the records, and the rest."""
        half = len(records) // 2
        for again in ([*self.merged(records[:half]), *records[half:]], result):
            if _bag(self.merged(again)) != _bag(result):
                raise InvalidInput(
                    f"merge policy: the program gives another result for records like {format_value(records[0])} if it "
                    "is applied to some of them before; nothing was compacted (it must give the same for its own "
                    "results, in any order)"
                )


MergePolicy: TypeAlias = Dedupe | Replace | Aggregate | Apply
_LIMITS = Limits()


def policy_of(config: PoolConfig) -> MergePolicy | None:
    """The merge policy of a pool; None if it has none."""
    return parse_policy(config.settings.policy, config.key) if config.settings.policy else None


def group_of(config: PoolConfig) -> GroupKey | None:
    """What is the same for all records of which the policy of a pool makes one; None if it has no policy."""
    policy = policy_of(config)
    if policy is None:
        return None

    def group(record: Value) -> Hashable:
        taken = policy.taken() if isinstance(policy, Aggregate) else lambda record: ()
        groups = {} if isinstance(policy, Dedupe) else _grouped([record], policy.fields, taken)[0]
        return next(iter(groups), (record.type, encode(record.type, record.data)))

    return group


def check_policy(config: PoolConfig) -> PoolConfig:
    """The configuration itself; InvalidInput if its merge policy makes no sense."""
    settings = config.settings
    if not settings.policy:
        return config
    if settings.primary:
        raise InvalidInput("a keyed pool has one record for each key and no merge policy (leave out -policy)")
    if settings.partition:
        raise InvalidInput("a pool has a merge policy or partitions, not both (leave out -partition)")
    parse_policy(settings.policy, config.key)
    return config


def check_condition(config: PoolConfig, condition: plan.Expr) -> None:
    """Refuse a deletion that would give another result if records were merged before it."""
    policy = policy_of(config)
    if policy is None or isinstance(policy, Dedupe):
        return
    paths = paths_in(condition)
    if paths is None or any(all(path[: len(field)] != field for field in policy.fields) for path in paths):
        raise InvalidInput(
            f"{config.name} has a merge policy: records are deleted by the fields of its groups alone, "
            f"{_listed(policy.fields)} (a record that is not merged yet has no other values of its own)"
        )


@lru_cache(maxsize=256)
def parse_policy(text: str, key: SortKey) -> MergePolicy:
    """The policy in a text, for pools of a key."""
    word, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    match word:
        case "dedupe" if not rest:
            return Dedupe()
        case "dedupe":
            raise InvalidInput(f"merge policy: dedupe stands alone, without {rest!r} (it makes equal records one)")
        case "replace":
            return Replace(key.paths, _newest(rest))
        case "aggregate":
            return _parse_aggregate(rest, key)
        case "program":
            return Apply(key.paths, _parse_program(rest))
    hint = did_you_mean(word, ["dedupe", "replace", "aggregate", "program"])
    raise InvalidInput(f"unknown merge policy {text!r}{hint} ({_HELP})")


def _newest(text: str) -> Path:
    by, _, field = text.partition(" ")
    if by != "by" or not field.strip():
        raise InvalidInput(
            "merge policy: replace needs the field that says which record is newest, as in replace by ts (a load can "
            "set one: shoal load -shaper or put loaded:=now())"
        )
    paths = parse_sort_key(field.strip()).paths
    if len(paths) != 1 or not paths[0] or ":" in field:
        raise InvalidInput(f"merge policy: replace by {field.strip()}: one field is needed, such as ts or meta.ts")
    return paths[0]


def _parse_aggregate(text: str, key: SortKey) -> Aggregate:
    summarize = f"summarize {text}"
    program = _compiled(summarize)
    # Without keys a yield of its own follows.
    match program.body:
        case (plan.DefaultScan(filter=None), plan.Summarize(aggs=aggs, keys=keys), *_) if len(parse(summarize)) == 1:
            fields = tuple(_group_field(path, expr) for path, expr in keys) or key.paths
            aggregates = tuple(_aggregate(path, agg) for path, agg in aggs)
        case _:
            raise InvalidInput(f"merge policy: aggregate {text!r} is not a list of aggregates (such as sum(n) by host)")
    if key.paths[0] not in fields:
        raise InvalidInput(
            f"merge policy: the groups have to contain the pool key {path_text(key.paths[0])} "
            f"(add it after by, or sort the pool by a field of the groups: -orderby {_listed(fields)})"
        )
    if () in fields:
        raise InvalidInput("merge policy: an aggregate needs a pool key that is a field (such as -orderby ts)")
    try:
        check_record([*fields, *(path for _, path in aggregates)])
    except InvalidInput as e:
        raise InvalidInput(f"merge policy: {e} (each field is a key or one aggregate)") from None
    return Aggregate(fields, aggregates)


def _group_field(path: Path, expr: plan.Expr) -> Path:
    if not isinstance(expr, plan.This) or expr.path != path:
        raise InvalidInput(
            f"merge policy: the key {path_text(path)} is computed (groups are fields; set it when records are loaded)"
        )
    return path


def _aggregate(path: Path, agg: plan.Agg) -> tuple[str, Path]:
    """An aggregate, and the field that it is of."""
    if agg.name == "count":
        raise InvalidInput(
            "merge policy: count() would count a merged record as one (load records with a field n of 1, and use "
            "sum(n))"
        )
    if agg.name not in _TAKES:
        raise InvalidInput(
            f"merge policy: {agg.name} of results of {agg.name} is something else (one of {', '.join(sorted(_TAKES))})"
        )
    if not isinstance(agg.expr, plan.This) or not agg.expr.path or agg.where is not None:
        raise InvalidInput(
            f"merge policy: {agg.name} has to be of a field, without a condition (such as {agg.name}(n))"
        )
    field = agg.expr.path
    if path not in (field, (agg.name,)):
        raise InvalidInput(
            f"merge policy: {agg.name}({path_text(field)}) goes to {path_text(field)}, not {path_text(path)}, so that "
            "results can be merged again"
        )
    return agg.name, field


def _parse_program(text: str) -> plan.Program:
    if not text:
        raise InvalidInput("merge policy: program needs a program (such as: program sort ts | tail 1)")
    program = _compiled(text)
    if not isinstance(program.body[0], plan.DefaultScan):
        raise InvalidInput("merge policy: a program gets the records of a key, and reads nothing else")
    for node in nodes(program):
        if isinstance(node, plan.Call) and node.name in CHANGING:
            raise InvalidInput(f"merge policy: {node.name}() gives another value each time (set it when loading)")
        if isinstance(node, plan.Load | plan.Debug | plan.Output):
            raise InvalidInput(f"merge policy: a program cannot {type(node).__name__.lower()}")
    return program


def _compiled(text: str) -> plan.Program:
    try:
        return compile_program(text, evaluate)
    except ShoalError as e:
        raise InvalidInput(f"merge policy: {str(e).splitlines()[0].rstrip(':')} (in {text!r})") from None


def _listed(fields: Iterable[Path]) -> str:
    return ",".join(map(path_text, fields))


# ---- groups


def _grouped(
    records: Iterable[Value], fields: tuple[Path, ...], part: Callable[[Value], Any] = lambda record: ()
) -> tuple[Groups, list[Value]]:
    """Records by the values of fields and by a part of a group, and those that are in no group."""
    finders = [getter(path) for path in fields]
    groups: Groups = {}
    others: list[Value] = []
    for record in records:
        keys = [find(record) for find in finders]
        place = part(record) if _is_record(record) and all(map(_is_key, keys)) else None
        if place is None:
            others.append(record)
            continue
        present = [key for key in keys if key is not None]
        name = (*map(exact_key, present), place)
        groups.setdefault(name, (present, []))[1].append(record)
    return groups, others


def _alone(records: Iterable[Value]) -> Iterable[Group]:
    """Records that are in no group, each as it is."""
    return (Group([record], [record]) for record in records)


def _is_record(value: Value) -> bool:
    return value.data is not None and isinstance(value.under().type, t.Record)


def _is_key(value: Value | None) -> bool:
    return value is not None and not is_error(value)


def _is_number(value: Value) -> bool:
    typ = value.under().type
    return value.data is None or typ in KINDS or isinstance(typ, t.Decimal)


def _is_ordered(value: Value) -> bool:
    return _is_number(value) or value.under().type is t.DATE


def _is_bool(value: Value) -> bool:
    return value.data is None or value.under().type is t.BOOL


_TAKES: dict[str, Callable[[Value], bool]] = {
    "sum": _is_number, "min": _is_ordered, "max": _is_ordered, "and": _is_bool, "or": _is_bool,
}  # fmt: skip
"""The aggregates of which results can be merged as values are, and what they take. They pass over anything else."""


def _compare_ages(a: Value | None, b: Value | None) -> int:
    """Any value is newer than none, a number is older than anything else, and the greater of two is newer."""
    one, other = _age_class(a), _age_class(b)
    if one != other or a is None or b is None or not one:
        return one - other
    return compare_values(a, b)


def _age_class(value: Value | None) -> int:
    if value is None or value.data is None or is_error(value):
        return 0
    return 1 if t.is_number(value.type.under) else 2


def _compare_exactly(a: Value, b: Value) -> int:
    """An order of all values in which only the very same ones are equal."""
    if verdict := t.compare_types_totally(a.type, b.type):
        return verdict
    p, q = (a.data is not None, encode(a.type, a.data) or b""), (b.data is not None, encode(b.type, b.data) or b"")
    return (p > q) - (p < q)


def _bag(values: Iterable[Value]) -> list[Value]:
    return sorted(values, key=cmp_to_key(_compare_exactly))


def _shown(keys: Iterable[Value]) -> str:
    return ", ".join(map(format_value, keys))
