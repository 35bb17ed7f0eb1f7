"""Which delimiter a table has, found out from its beginning.

One that cuts all of the first records into the same number of fields, more than one, is likely. Of several such, the
one with most fields wins, then the first of the candidates. The comma loses where it stands only in numbers: `1,5;2,5`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from shoal.formats.csv.text import Ahead

CANDIDATES = ",\t;|"
_RECORDS = 100
"""Records to look at."""
_BYTES = 1 << 16
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+")


def detect_delimiter(text: Ahead, quote: str | None, candidates: str = CANDIDATES) -> str:
    """The delimiter of a table; the first candidate if nothing shows. Only as much is waited for as it takes."""
    size = 1
    while True:
        head = text.look(size)
        beginning = head.decode(errors="replace")
        first = next(_records(beginning, quote), None)
        if first is None and size <= len(head) < _BYTES:
            size = len(head) + 1
            continue
        marks = [c for c in candidates if c in (first or beginning)]
        if len(marks) < 2:
            return marks[0] if marks else candidates[0]
        return _choose(text.look(_BYTES)[:_BYTES].decode(errors="replace"), marks, quote)


def _choose(head: str, candidates: list[str], quote: str | None) -> str:
    """The candidate that explains the records in a text best."""
    records = list(islice(_records(head, quote), _RECORDS)) or [head]
    cut = {c: [_fields(record, c, quote) for record in records] for c in candidates}
    if ";" in cut and "," in cut and _has_decimal_commas(cut[";"]):
        del cut[","]
    widths = {c: len(rows[0]) for c, rows in cut.items() if len(rows[0]) > 1}
    regular = {c: width for c, width in widths.items() if all(len(row) == width for row in cut[c])}
    best = regular or widths  # bad records may be among the first
    return max(best, key=lambda c: best[c]) if best else candidates[0]


def _records(text: str, quote: str | None) -> Iterator[str]:
    """The whole records of a text. A line end within quotes does not end one."""
    parts: list[str] = []
    for line in text.split("\n")[:-1]:
        parts.append(line)
        record = "\n".join(parts)
        if quote is not None and record.count(quote) % 2:
            continue
        parts = []
        if record.strip("\r\n"):
            yield record.removesuffix("\r")


def _fields(record: str, delimiter: str, quote: str | None) -> list[str]:
    if quote is None or quote not in record:
        return record.split(delimiter)
    q, d = re.escape(quote), re.escape(delimiter)
    # The quantifiers are possessive: no text makes the search go back.
    pattern = rf"((?:[^{q}{d}]++|{q}(?:[^{q}]++|{q}{q})*+(?:{q}|\Z))*+)(?:{d}|\Z)"
    fields: list[str] = re.findall(pattern, record)
    return fields if record.endswith(delimiter) else fields[:-1]


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether commas stand in numbers only, and in some."""
    cells = [cell for row in rows for cell in row if "," in cell]
    return bool(cells) and all(_DECIMAL_COMMA.fullmatch(cell.strip()) for cell in cells)
