"""The settings of a job that applies change events: a section `etl` whose one transform is of the type `cdc`."""

from __future__ import annotations

from shoal.connect.etl.places import Place, parse_place
from shoal.connect.settings import Section
from shoal.errors import InvalidInput
from shoal.model.node import frozen

TYPE = "cdc"
_EVERY = 1.0
_RECORDS = 100_000
_TRUE = ("false", "true")


@frozen
class CdcConfig:
    """A job."""

    name: str
    input: Place
    source: str
    """What the topics begin with."""
    tables: tuple[tuple[str, Place], ...]
    """The tables, and where their rows go."""
    creates: bool = False
    """Whether pools are created that are not there."""
    transactions: int = 1
    """How many transactions are one commit, at most."""
    records: int = _RECORDS
    """How many raw records are read at a time."""
    every: float = _EVERY
    expired: Place | None = None
    """Where events go that cannot be read; None if they stop the job."""
    after: int | None = None
    """The raw record behind which to begin, where no commit says where the job is."""


def is_cdc(settings: Section) -> bool:
    """Whether the section `etl` of some settings is such a job."""
    if "etl" not in settings:
        return False
    return any(each.text("type") == TYPE for each in settings.section("etl").sections("transforms"))


def parse_cdc(settings: Section) -> CdcConfig:
    """The job in some settings, which may have sections for others."""
    section = settings.section("etl")
    transforms = list(section.sections("transforms"))
    if len(transforms) != 1:
        raise InvalidInput(f"{section.where}: a transform of the type cdc stands alone (others go into another file)")
    (transform,) = transforms
    transform.mention("type")
    batch, expire = section.section("batch"), section.section("expire")
    source = transform.required("source")
    config = CdcConfig(
        section.text("name") or source,
        parse_place(section.required("input")),
        source,
        _tables(transform),
        transform.choice("create", _TRUE, "false") == "true",
        batch.count("transactions", 1, 1) or 1,
        batch.count("records", _RECORDS, 1) or _RECORDS,
        section.seconds("every", _EVERY),
        parse_place(expire.required("pool")) if "expire" in section else None,
        transform.count("after"),
    )
    for each in (transform, batch, expire, section):
        each.require_known()
    _check(section, config)
    return config


def _tables(transform: Section) -> tuple[tuple[str, Place], ...]:
    pairs = transform.section("tables").pairs()
    if not pairs:
        raise InvalidInput(f"{transform.where}: tables is missing (such as `tables: {{public.orders: orders}}`)")
    for table in pairs:
        if "." not in table:
            raise InvalidInput(f"{transform.where}.tables: {table!r} has no schema (such as public.{table})")
    return tuple((table, parse_place(place or table.rpartition(".")[2])) for table, place in pairs.items())


def _check(section: Section, config: CdcConfig) -> None:
    places = [place for _, place in config.tables]
    for place in places:
        if place == config.input or place == config.expired or places.count(place) > 1:
            raise InvalidInput(f"{section.where}: {place} is used twice (each table has a pool of its own)")
