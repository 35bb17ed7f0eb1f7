"""Tokens for services, by their URLs, in the file `credentials.json` that nobody else may read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shoal.errors import CorruptData, InvalidInput, StorageFailure

_FILE = "credentials.json"


def is_service(location: str) -> bool:
    """Whether a lake is behind a service."""
    return location.startswith(("http://", "https://"))


def service_url(location: str) -> str:
    """The URL of a service as it is kept: always the same, however it was written."""
    parts = urlsplit(location)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InvalidInput(f"{location}: no URL of a service (such as http://localhost:9867)")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("a URL is no place for secrets (keep a token with: shoal auth store)")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


class Credentials:
    """The file in a directory of settings."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.path = (Path.home() / ".shoal" if directory is None else Path(directory)) / _FILE

    def token(self, location: str) -> str | None:
        """The token for a service; None if there is none."""
        found = self._read().get(service_url(location), {}).get("access")
        return found if isinstance(found, str) else None

    def store(self, location: str, token: str) -> None:
        """Keep a token for a service, in place of another one."""
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidInput("this is no token (give the text that shoal tokens create, or your provider, gave you)")
        self._write({**self._read(), service_url(location): {"access": token}})

    def remove(self, location: str) -> bool:
        """Forget the token for a service; whether there was one."""
        kept = self._read()
        was_there = kept.pop(service_url(location), None) is not None
        if was_there:
            self._write(kept)
        return was_there

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with self.path.open() as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise InvalidInput(f"{self.path}: others can read your tokens (keep it to yourself: chmod 600)")
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise StorageFailure(f"{self.path}: {(e.strerror or str(e)).lower()}") from None
        except (ValueError, RecursionError):
            found = None
        services = found.get("services") if isinstance(found, dict) else None
        if not isinstance(services, dict) or not all(isinstance(each, dict) for each in services.values()):
            raise CorruptData(f"{self.path}: holds no tokens (remove it, and log in anew)")
        return services

    def _write(self, services: dict[str, dict[str, Any]]) -> None:
        aside = self.path.with_name(f"{_FILE}.{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(aside, "w", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)) as file:
                json.dump({"services": services}, file, indent=2)
                file.write("\n")
            aside.replace(self.path)
        except OSError as e:
            aside.unlink(missing_ok=True)
            raise StorageFailure(f"{self.path}: {(e.strerror or str(e)).lower()}") from None
