"""Public keys of an identity provider, by their ids: a JSON Web Key Set in a file or at an https URL.

Only what is configured is ever read; what a token says about where its key is, is not looked at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from shoal.errors import CorruptData, NotFound, ShoalError, StorageFailure
from shoal.lazy import lazy

if TYPE_CHECKING:
    from shoal.sources import http
else:
    http = lazy("shoal.sources.http")

ALGORITHMS = ("RS256", "ES256", "EdDSA")
_OF_KEYS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
"""The one algorithm that a key is used with, by its type and curve: none of them takes a shared secret."""
_PUBLIC = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}
_LEAST_RSA_BITS = 2048
_TIMEOUT = 5.0
_LARGEST = 256 << 10

Keys = Mapping[tuple[str, str], Any]
"""Public keys by id and algorithm."""


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds: how old keys may get before they are read again, how often at most, and when they are too old to use."""

    stale: float = 300.0
    between: float = 10.0
    useless: float = 24 * 3600.0


class KeySet:
    """The keys at one location, read when first needed, when they get old and when a key is missing."""

    def __init__(self, location: str, ages: Ages = Ages()) -> None:
        self.location = location
        self._ages = ages
        self._lock = Lock()
        self._keys: Keys = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._failure = ""
        if not _is_url(location):
            self._refresh()

    def find(self, kid: str, algorithm: str) -> Any | None:
        """A key; None if there is none such. If the location cannot be read now, what was read will do for a day."""
        if _age(self._read_at) > self._ages.stale or (kid, algorithm) not in self._keys:
            self._try_again()
        return self._keys.get((kid, algorithm))

    def _try_again(self) -> None:
        with self._lock:
            if _age(self._tried_at) > self._ages.between:
                try:
                    self._refresh()
                except ShoalError as e:
                    self._failure = str(e)
            if _age(self._read_at) > self._ages.useless:
                raise StorageFailure(self._failure)

    def _refresh(self) -> None:
        self._tried_at = time.monotonic()
        data = _fetch(self.location) if _is_url(self.location) else _read(self.location)
        self._keys = parse_keys(data, self.location)
        self._read_at = time.monotonic()


def _age(at: float | None) -> float:
    return float("inf") if at is None else time.monotonic() - at


def _is_url(location: str) -> bool:
    return location.startswith("https://")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"{path}: file does not exist") from None
    except OSError as e:
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None


def _fetch(url: str) -> bytes:
    try:
        return http.fetch(url, _TIMEOUT, _LARGEST)
    except ShoalError as e:
        raise StorageFailure(f"keys cannot be fetched: {e}") from None


def parse_keys(data: bytes, location: str) -> Keys:
    """The keys of a set that can be used here; the others are for something else."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptData(f"{location}: not valid JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise CorruptData(f"{location}: not a JSON Web Key Set, which has a list of keys")
    keys: dict[tuple[str, str], Any] = {}
    for entry in entries:
        parsed = _parse_key(entry, location) if isinstance(entry, dict) else None
        if parsed is not None:
            keys.setdefault(*parsed)
    if not keys:
        raise CorruptData(f"{location}: no key with an id for any of {', '.join(ALGORITHMS)}")
    return keys


def _parse_key(entry: dict[str, Any], location: str) -> tuple[tuple[str, str], Any] | None:
    kid, kind, curve = entry.get("kid"), entry.get("kty"), entry.get("crv")
    if not all(isinstance(text, (str, type(None))) for text in (kid, kind, curve)):
        return None
    algorithm = _OF_KEYS.get((kind or "", curve))
    if not kid or algorithm is None or entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    jwt: Any = import_module("jwt")
    # Should the file hold private parts as well, they stay there.
    public = {name: entry.get(name) for name in _PUBLIC[kind or ""]}
    try:
        key = jwt.PyJWK(public, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        raise CorruptData(f"{location}: the key {kid!r} cannot be read") from None
    if kind == "RSA" and key.key_size < _LEAST_RSA_BITS:
        raise CorruptData(f"{location}: the key {kid!r} is too short ({key.key_size} bits, at least {_LEAST_RSA_BITS})")
    return (kid, algorithm), key
