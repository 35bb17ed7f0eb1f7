"""Queries over a lake behind a service: sent at once, so that their errors are raised at once; read as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shoal.api.commitish import parse_head
from shoal.api.options import Statistics
from shoal.client.service import Call, Service
from shoal.client.streams import Stream
from shoal.errors import Unsupported
from shoal.frames.results import Results
from shoal.lang.source import Part, Source
from shoal.lazy import lazy
from shoal.model.values import Value, record, string
from shoal.planner.files import read_text

if TYPE_CHECKING:
    from shoal.lang import parser
else:
    parser = lazy("shoal.lang.parser")


_MAY_CHANGE = "load"
"""The one word that lets a program change something: without it, asking twice is safe."""


def full_text(program: str, includes: Sequence[str]) -> str:
    """The program with the texts of files in front, each on lines of its own.

    The service knows no names of files: what it could not parse is refused here, where errors have them.
    """
    if not includes:
        return program
    source = Source([*(Part(path, read_text(path)) for path in includes), Part("", program)])
    parser.parse_source(source)
    return source.text


def question(text: str, head: str | None, engine: str | None) -> Value:
    """A program as the service takes it."""
    fields = [("query", string(text))]
    if head is not None:
        pool, branch = parse_head(head)
        fields.append(("head", record([("pool", string(pool)), ("branch", string(branch))])))
    if engine is not None:
        fields.append(("engine", string(engine)))
    return record(fields)


def ask(
    service: Service,
    names: tuple[str, ...],
    body: Value,
    text: str,
    *,
    statistics: bool = False,
    on_debug: Callable[[Value], None] | None = None,
    on_warning: Callable[[str], None] | None = None,
    on_output: Callable[[str, Value], None] | None = None,
    is_safe: bool | None = None,
) -> Results:
    """The results of a query."""
    choices = {"ctrl": "T", "statistics": "T" if statistics else "F", "warnings": "T"}
    can_repeat = _MAY_CHANGE not in text.lower() if is_safe is None else is_safe
    answer = service.send(Call("POST", names, choices, value=body, is_safe=can_repeat))
    counted = Statistics()
    results = Results(text, Stream(answer, counted, on_debug, on_warning, on_output), counted)
    results.on_spark(_refuse)
    return results


def _refuse(times: str) -> Any:
    raise Unsupported("tasks of Spark do not read through a service (open the lake itself, or take to_arrow())")
