"""Generates mixed logs, reproducibly: six kinds, optional fields, nulls, nesting, arrays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
_WORDS = ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta"]
Record = dict[str, Any]


def path(records: int) -> Path:
    """The file with this many records; created on first use."""
    out = DATA / f"logs-{records}.ndjson"
    if not out.exists():
        DATA.mkdir(exist_ok=True)
        part = out.with_suffix(".part")
        with part.open("w") as file:
            for record in generate(records):
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
        part.rename(out)
    return out


def generate(records: int, seed: int = 7) -> list[Record] | Any:
    """The records one by one."""
    dice = random.Random(seed)
    kinds = [kind for kind, weight in _KINDS.items() for _ in range(weight)]
    for i in range(records):
        yield dice.choice(kinds)(dice, i, _time(dice))


def _time(dice: random.Random) -> str:
    day, second, micros = dice.randrange(1, 29), dice.randrange(86400), dice.randrange(10**6)
    return f"2024-03-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{micros:06d}Z"


def _host(dice: random.Random) -> str:
    return f"host-{dice.randrange(500)}.example.com"


def _http(dice: random.Random, i: int, ts: str) -> Record:
    out = {
        "ts": ts,
        "kind": "http",
        "id": i,
        "host": _host(dice),
        "method": dice.choice(["GET", "POST", "PUT"]),
        "path": "/" + "/".join(dice.choices(_WORDS, k=3)),
        "status": dice.choice([200, 200, 200, 404, 500]),
        "latency": round(dice.random() * 500, 3),
        "bytes": dice.randrange(10**6),
        "client": {"ip": f"10.{dice.randrange(256)}.{dice.randrange(256)}.7", "port": dice.randrange(65536)},
        "ua": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        "ref": None,
    }
    return {**out, "user": dice.choice(_WORDS)} if dice.random() < 0.3 else out


def _app(dice: random.Random, i: int, ts: str) -> Record:
    out = {
        "ts": ts,
        "kind": "app",
        "id": i,
        "level": dice.choice(["info", "warn", "error"]),
        "msg": " ".join(dice.choices(_WORDS, k=12)),
        "logger": "com.example." + dice.choice(_WORDS),
        "thread": dice.randrange(64),
        "tags": dice.choices(_WORDS, k=dice.randrange(4)),
        "ctx": {
            "req": f"{dice.getrandbits(64):016x}",
            "span": {"id": dice.randrange(10**9), "sampled": dice.random() < 0.5},
        },
    }
    return {**out, "err": {"code": dice.randrange(100), "text": 'a "quoted" text\n'}} if dice.random() < 0.2 else out


def _metric(dice: random.Random, i: int, ts: str) -> Record:
    return {
        "ts": ts,
        "kind": "metric",
        "id": i,
        "name": "cpu." + dice.choice(_WORDS),
        "value": dice.choice([dice.randrange(100), round(dice.random() * 100, 2)]),
        "unit": "pct",
        "labels": {"host": _host(dice), "dc": dice.choice(["eu", "us"])},
        "hist": [dice.randrange(1000) for _ in range(8)],
    }


def _auth(dice: random.Random, i: int, ts: str) -> Record:
    return {
        "ts": ts,
        "kind": "auth",
        "id": i,
        "user": dice.choice(_WORDS),
        "ok": dice.random() < 0.9,
        "ip": f"192.168.{dice.randrange(256)}.{dice.randrange(256)}",
        "factors": ["pw", "otp"][: dice.randrange(3)],
        "session": f"{dice.getrandbits(128):032x}",
        "details": None,
    }


def _audit(dice: random.Random, i: int, ts: str) -> Record:
    changes = [{"f": dice.choice(_WORDS), "old": dice.randrange(10), "new": 1} for _ in range(dice.randrange(3))]
    return {
        "id": i,
        "ts": ts,
        "kind": "audit",
        "actor": dice.choice(_WORDS),
        "changes": changes,
        "note": "x" * dice.randrange(200),
        "weight": dice.choice([1, 1.5, None, "heavy"]),
    }


def _heartbeat(dice: random.Random, i: int, ts: str) -> Record:
    return {"ts": ts, "kind": "heartbeat", "id": i, "host": _host(dice), "up": True, "load": [0.5, dice.random(), 1]}


_KINDS: dict[Callable[[random.Random, int, str], Record], int] = {
    _http: 8,
    _app: 5,
    _metric: 4,
    _auth: 2,
    _audit: 1,
    _heartbeat: 1,
}
