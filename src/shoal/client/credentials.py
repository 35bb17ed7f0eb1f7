"""Tokens for services: SHOAL_TOKEN, or by their URLs in the file `credentials.json` that nobody else may read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from shoal.client.address import service_url
from shoal.errors import CorruptData, InvalidInput, StorageFailure

VARIABLE = "SHOAL_TOKEN"
_FILE = "credentials.json"


def find_token(location: str, directory: str | os.PathLike[str] | None) -> str | None:
    """The token for a service, from the environment or from the file; None if there is none."""
    given = os.environ.get(VARIABLE, "").strip()
    return check_token(given) if given else Credentials(directory).token(location)


def check_token(token: str) -> str:
    """The token itself, if it may be one."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput("this is not a token (give the text that shoal tokens create, or your provider, gave you)")
    return token


class Credentials:
    """The file in a directory of settings."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.path = (Path.home() / ".shoal" if directory is None else Path(directory)) / _FILE

    def token(self, location: str) -> str | None:
        """The token for a service; None if there is none."""
        token = self._read().get(service_url(location), {}).get("access")
        return token if isinstance(token, str) else None

    def store(self, location: str, token: str) -> None:
        """Keep a token for a service, in place of another one."""
        self._write({**self._read(), service_url(location): {"access": check_token(token)}})

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
                document = json.load(file)
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise StorageFailure(f"{self.path}: {(e.strerror or str(e)).lower()}") from None
        except (ValueError, RecursionError):
            document = None
        services = document.get("services") if isinstance(document, dict) else None
        if not isinstance(services, dict) or not all(isinstance(each, dict) for each in services.values()):
            raise CorruptData(f"{self.path}: does not contain tokens (remove it, and log in again)")
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
