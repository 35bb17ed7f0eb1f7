"""Tokens for services, by their URLs: from the environment, or from a file that nobody else can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from shoal.errors import InvalidInput, StorageFailure

VARIABLE = "SHOAL_TOKEN"
_FILE = "credentials.json"


def config_directory(given: str | os.PathLike[str] | None = None) -> Path:
    """Where settings and credentials are."""
    return Path.home() / ".shoal" if given is None else Path(given)


def find_token(url: str, directory: Path) -> str | None:
    """The token for a service; None if there is none."""
    return os.environ.get(VARIABLE) or read_tokens(directory).get(url)


def read_tokens(directory: Path) -> dict[str, str]:
    """All tokens that are kept, by the URLs of their services."""
    path = directory / _FILE
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise StorageFailure(f"{path}: cannot be read: {(e.strerror or str(e)).lower()}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(token, str) for token in found.values()):
        raise InvalidInput(f"{path}: holds no tokens by the URLs of services (remove it, and store them anew)")
    return found


def write_token(url: str, token: str | None, directory: Path) -> None:
    """Keep a token for a service; None forgets the one there is."""
    tokens = {known: kept for known, kept in read_tokens(directory).items() if known != url}
    if token is not None:
        tokens[url] = token
    path = directory / _FILE
    aside = path.with_name(f"{_FILE}.{os.getpid()}")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(tokens, file, indent=2)
        aside.replace(path)
    except OSError as e:
        aside.unlink(missing_ok=True)
        raise StorageFailure(f"{path}: {(e.strerror or str(e)).lower()}") from None
