"""Buckets of S3, Google Cloud and Azure: settings from the environment alone, and errors in our words.

Without keys nothing is sent: the library would go and ask the metadata service of a cloud for some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from shoal.errors import InvalidInput, NotFound, StorageFailure, Unsupported

if TYPE_CHECKING:  # the library has these for type checkers only
    from obstore.store import ClientConfig, RetryConfig, S3Config

Bucket = S3Store | GCSStore | AzureStore

_ENDPOINT = re.compile(r"https?://[\w.:\[\]-]+(/[\w./%~-]*)?", re.ASCII)
"""What is no URL makes the library panic."""
_STATUS = re.compile(r"status code: (\d{3}) ([^:\n]*)")
_CUT_OFF = re.compile(r"\bkind: (?:Interrupted|Timeout)\b")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_URL = re.compile(r"\bhttps?://\S+")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_CAUSES = (
    ("ConnectionRefused", "connection refused"),
    ("dns error", "no such host"),
    ("TimedOut", "timed out"),
    ("ConnectionReset", "connection lost"),
    ("IncompleteMessage", "connection lost"),
    ("UnexpectedEof", "connection lost"),
)
"""The library tells the cause only in its long text."""


@dataclass(frozen=True, slots=True)
class _Service:
    """What the environment says about one cloud."""

    endpoints: tuple[str, ...]
    """The first of these that is set."""
    public: str
    """Set to true, requests are not signed."""
    keys: tuple[tuple[str, ...], ...]
    """Ways to give credentials: all variables of one way have to be set."""
    advice: str


_SERVICES = {
    "s3": _Service(
        # the one in the middle is what the Zed tools look at
        ("AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT", "AWS_ENDPOINT_URL"),
        "AWS_SKIP_SIGNATURE",
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),),
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket",
    ),
    "gs": _Service(
        ("GOOGLE_BASE_URL",),
        "GOOGLE_SKIP_SIGNATURE",
        (
            ("GOOGLE_APPLICATION_CREDENTIALS",),
            ("GOOGLE_SERVICE_ACCOUNT",),
            ("GOOGLE_SERVICE_ACCOUNT_PATH",),
            ("GOOGLE_SERVICE_ACCOUNT_KEY",),
            ("GOOGLE_BEARER_TOKEN",),
        ),
        "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account,"
        " or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    ),
    "az": _Service(
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "AZURE_SKIP_SIGNATURE",
        (
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCESS_KEY"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_MASTER_KEY"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_SAS_KEY"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_SAS_TOKEN"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_TOKEN"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
        ),
        "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN,"
        " or AZURE_SKIP_SIGNATURE=true for a public container",
    ),
}


def open_bucket(scheme: str, bucket: str, where: str, client: ClientConfig, retry: RetryConfig) -> Bucket:
    """A handle to a bucket, which errors call `where`. Nothing is sent yet, not even to see if it is there."""
    service = _SERVICES[scheme]
    endpoint = next((os.environ[name] for name in service.endpoints if os.environ.get(name)), None)
    is_public = os.environ.get(service.public, "").lower() in ("true", "1")
    _check_settings(service, endpoint, is_public, where)
    options: ClientConfig = {**client, "allow_http": endpoint is not None and endpoint.startswith("http://")}
    with naming(where):
        match scheme:
            case "s3":
                config: S3Config = {
                    "skip_signature": is_public,
                    "conditional_put": "etag",  # whatever AWS_CONDITIONAL_PUT says: creates are nothing without it
                    "disable_bulk_delete": True,  # the bulk call is made even for one object, and many stores lack it
                }
                if endpoint is not None:
                    config["endpoint"] = endpoint
                return S3Store(bucket, config=config, client_options=options, retry_config=retry)
            case "gs":
                return GCSStore(bucket, skip_signature=is_public, client_options=options, retry_config=retry)
            case _:
                return AzureStore(bucket, skip_signature=is_public, client_options=options, retry_config=retry)


def _check_settings(service: _Service, endpoint: str | None, is_public: bool, where: str) -> None:
    if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
        raise InvalidInput(f"{where}: the endpoint {endpoint!r} is not an http or https URL")
    if not is_public and not any(all(os.environ.get(name) for name in way) for way in service.keys):
        raise InvalidInput(f"{where}: no credentials ({service.advice})")


@contextmanager
def naming(where: str, missing: str = "no such object") -> Iterator[None]:
    """Errors of the library in our words, one line with the place in front."""
    try:
        yield
    except FileNotFoundError as e:
        # a bucket that is not there must not look like one that is empty
        if any(sign in str(e) for sign in _NO_BUCKET):
            raise StorageFailure(f"{where}: {_problem(str(e))}") from None
        raise NotFound(f"{where}: {missing}") from None
    except BaseError as e:
        raise StorageFailure(f"{where}: {_problem(str(e))}") from None
    except ValueError as e:
        raise InvalidInput(f"{where}: {_first_line(str(e))}") from None


_first_user: int | None = None


def check_process(where: str) -> None:
    """To be called before each request. The library's threads do not survive a fork: it would wait for ever."""
    global _first_user
    if _first_user is None:
        _first_user = os.getpid()
    elif _first_user != os.getpid():
        raise Unsupported(
            f"{where}: this process was forked from one that had used a cloud (start processes with spawn instead)"
        )


def status_of(error: BaseError) -> int | None:
    """The HTTP status that an error was made of, if an answer came."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_cut_off(error: BaseError) -> bool:
    """Whether the connection was lost or timed out, so that another try may do better."""
    return _CUT_OFF.search(str(error)) is not None


def _problem(text: str) -> str:
    """What happened, without the URL of the request: that can carry a signature."""
    if any(sign in text for sign in _NO_BUCKET):
        return "no such bucket (create it first)"
    if found := _STATUS.search(text):
        if found[1] in ("401", "403"):
            return "permission denied"
        code = _CODE.search(text)
        return f"{found[2].strip().lower()} ({found[1]})" + (f": {code[1]}" if code else "")
    return next((cause for sign, cause in _CAUSES if sign in text), _first_line(text))


def _first_line(text: str) -> str:
    return _URL.sub("...", text.partition("\n")[0].strip())
