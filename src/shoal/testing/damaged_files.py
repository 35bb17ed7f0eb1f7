"""Damage to the files of a lake that a process has read before: ways to cause it, and what may become of a query.

Each write gets a time of modification of its own: file systems count in steps, and tests write faster than that.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from shoal.errors import CorruptData

WAYS = ("flipped", "truncated", "zeroed", "removed")
_moments = count(10**18)


def write(path: Path, data: bytes) -> None:
    """Overwrite a file in place."""
    path.write_bytes(data)
    moment = next(_moments)
    os.utime(path, ns=(moment, moment))


def damage(path: Path, way: str, dice: random.Random) -> str:
    """Damage a file, and describe how."""
    data = bytearray(path.read_bytes())
    match way:
        case "flipped":
            index, bit = dice.randrange(len(data)), dice.randrange(8)
            data[index] ^= 1 << bit
            text = f"bit {bit} of byte {index} of {len(data)} flipped"
        case "truncated":
            size = dice.choice((0, 1, len(data) // 2, len(data) - 1, dice.randrange(len(data))))
            text = f"truncated to {size} of {len(data)} bytes"
            del data[size:]
        case "zeroed":
            start, end = dice.choice(((0, len(data)), sorted(dice.sample(range(len(data) + 1), 2))))
            data[start:end] = bytes(end - start)
            text = f"zeroed from {start} to {end} of {len(data)}"
        case _:
            path.unlink()
            return "removed"
    write(path, bytes(data))
    return text


def verdict(ask: Callable[[], object], right: object, path: Path) -> str | None:
    """What is wrong with what a query gives after damage to a file; None if it is right, or tells the damage."""
    try:
        answer = ask()
    except CorruptData as e:
        return None if path.name in str(e) and str(path.parent) not in str(e) else f"not named: {e}"
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None if answer == right else f"another answer: {answer}"


def wrong_answers(ask: Callable[[], object], path: Path, rounds: int, dice: random.Random) -> list[str]:
    """What is wrong with the answers of a process to one question, between which a file is damaged and restored."""
    good = path.read_bytes()
    right = ask()
    wrong: list[str] = []
    for number in range(rounds):
        way = WAYS[0] if number >= len(WAYS) else WAYS[number]
        text = damage(path, way, dice)
        if not path.exists() or path.read_bytes() != good:
            wrong += [f"{text}: {problem}" for problem in (verdict(ask, right, path),) if problem is not None]
        with suppress(FileNotFoundError):
            path.unlink()
        write(path, good)
        if (answer := ask()) != right:
            wrong.append(f"{text}, then restored: {answer}")
    return wrong
