"""The section `etl` of a YAML file: which records are read, what is made of them, where that goes."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.connect.etl.expiry import Limits
from shoal.connect.etl.kinds import KINDS
from shoal.connect.etl.places import Place, parse_place
from shoal.connect.etl.programs import require_expression
from shoal.connect.etl.steps import Common, Transform
from shoal.connect.etl.transaction import Transaction
from shoal.connect.settings import Section, read_settings
from shoal.errors import InvalidInput
from shoal.model.node import frozen
from shoal.suggestions import did_you_mean

DEFAULT_NAME = "etl"
_EVERY = 1.0
_RECORDS = 100_000
_PATIENCE = 1_000_000
"""Records after which an unfinished group is given up, if nothing else is said."""
_SECOND = 10**9


@frozen
class Expire:
    """What becomes of records whose group is not completed in time."""

    place: Place
    limits: Limits


@frozen
class EtlConfig:
    """A job."""

    input: Place
    output: Place
    """Where its cursor is, and what its transforms give unless they name another pool."""
    transforms: tuple[Transform, ...]
    name: str = DEFAULT_NAME
    """What it is called in its output pools; jobs that share one need different names."""
    every: float = _EVERY
    """Seconds between rounds, when there is nothing new."""
    records: int = _RECORDS
    """The new records of a round."""
    expire: Expire | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """Where its transforms' results go, and its cursor first."""
        return tuple(dict.fromkeys((self.output, *(each.common.place for each in self.transforms))))


def read_etl(path: str) -> EtlConfig:
    """The job in a YAML file."""
    return parse_etl(read_settings(path))


def parse_etl(settings: Section) -> EtlConfig:
    """The job in some settings, which may have sections for others."""
    if "etl" not in settings:
        raise InvalidInput(f"{settings.where}: no section named 'etl' (it says what `shoal etl` does: see docs/etl.md)")
    section = settings.section("etl")
    source, output = parse_place(section.required("input")), parse_place(section.required("output"))
    batch = section.section("batch")
    config = EtlConfig(
        source,
        output,
        tuple(_transform(each, output) for each in section.sections("transforms")),
        section.text("name") or DEFAULT_NAME,
        section.seconds("every", _EVERY),
        batch.count("records", _RECORDS, 1) or _RECORDS,
        _expire(section) if "expire" in section else None,
    )
    batch.require_known()
    section.require_known()
    _check(section, config)
    return config


def _expire(section: Section) -> Expire:
    expire = section.section("expire")
    after = expire.seconds("after", 0.0) if "after" in expire else None
    if after is not None and after <= 0:
        raise InvalidInput(f"{expire.where}.after: expecting a duration (such as 10m)")
    records = expire.count("records", _PATIENCE, 1)
    place = parse_place(expire.required("pool"))
    expire.require_known()
    return Expire(place, Limits(None if after is None else int(after * _SECOND), records))


def _transform(settings: Section, output: Place) -> Transform:
    kind = settings.text("type", "stateless") or ""
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f" (one of: {', '.join(KINDS)})"
        raise InvalidInput(f"{settings.where}.type: {kind!r}{hint}")
    pool, key, topic = settings.text("pool"), settings.text("key"), settings.required("out")
    common = Common(
        settings.where,
        settings.required("zed"),
        output if pool is None else parse_place(pool),
        topic,
        settings.text("name") or topic,
        None if key is None else require_expression(key, f"{settings.where}.key"),
    )
    transform = KINDS[kind](settings, common)
    settings.require_known()
    return transform


def _check(section: Section, config: EtlConfig) -> None:
    """InvalidInput if the settings do not go together."""
    if not config.transforms:
        raise InvalidInput(f"{section.where}: transforms is missing (a list of what is made of the records)")
    if config.input in config.places:
        raise InvalidInput(f"{section.where}: {config.input} is input and output (the output goes into another pool)")
    if config.expire is not None and config.expire.place in (config.input, *config.places):
        raise InvalidInput(f"{section.where}.expire.pool: {config.expire.place} is used already (name another pool)")
    _require_names([each for each in config.transforms if isinstance(each, Transaction)])
    for transform in config.transforms:
        transform.check()


def _require_names(transforms: Sequence[Transaction]) -> None:
    names: set[str] = set()
    for common in (each.common for each in transforms):
        if common.name in names:
            raise InvalidInput(
                f"{common.where}: another transaction is called {common.name!r} (give it a name: of its own)"
            )
        names.add(common.name)
