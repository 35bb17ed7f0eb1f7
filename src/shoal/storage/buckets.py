"""Opens buckets of S3, Google Cloud and Azure with their settings, and translates errors.

Without credentials no request is sent: the library would ask the metadata service of a cloud for some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from shoal.errors import InvalidInput, NotFound, StorageFailure, Unsupported
from shoal.model.node import frozen
from shoal.storage.settings import sent_settings, setting

if TYPE_CHECKING:  # the library has these for type checkers only
    from obstore.store import ClientConfig, RetryConfig, S3Config

Bucket = S3Store | GCSStore | AzureStore

_ENDPOINT = re.compile(r"https?://[\w.:\[\]-]+(/[\w./%~-]*)?", re.ASCII)
"""Endpoints that the library accepts: it panics on anything that is not a URL."""
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
"""Causes of errors, which the library reports only in a long text."""


@frozen
class _Service:
    """The environment variables of one cloud."""

    endpoints: tuple[str, ...]
    """Variables with the endpoint; the first that is set counts."""
    public: str
    """The variable that turns off signing."""
    keys: tuple[tuple[str, ...], ...]
    """Alternative sets of variables with credentials; one set must be complete."""
    advice: str


_SERVICES = {
    "s3": _Service(
        # the second one is what the Zed tools use
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
    """Open a bucket; errors name it `where`. No request is sent, so a missing bucket is not noticed yet."""
    service = _SERVICES[scheme]
    endpoint = next(filter(None, map(setting, service.endpoints)), None)
    is_public = (setting(service.public) or "").lower() in ("true", "1")
    _check_settings(service, endpoint, is_public, where)
    options: ClientConfig = {**client, "allow_http": endpoint is not None and endpoint.startswith("http://")}
    sent: Any = sent_settings(scheme)
    with naming(where):
        match scheme:
            case "s3":
                config: S3Config = {
                    **sent,  # type: ignore[typeddict-item]
                    "skip_signature": is_public,
                    "conditional_put": "etag",  # regardless of AWS_CONDITIONAL_PUT: creates depend on it
                    "disable_bulk_delete": True,  # used even for one object, and many stores lack it
                }
                if endpoint is not None:
                    config["endpoint"] = endpoint
                return S3Store(bucket, config=config, client_options=options, retry_config=retry)
            case "gs":
                return GCSStore(
                    bucket, config=sent, skip_signature=is_public, client_options=options, retry_config=retry
                )
            case _:
                return AzureStore(
                    bucket, config=sent, skip_signature=is_public, client_options=options, retry_config=retry
                )


def _check_settings(service: _Service, endpoint: str | None, is_public: bool, where: str) -> None:
    if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
        raise InvalidInput(f"{where}: the endpoint {endpoint!r} is not an http or https URL")
    if not is_public and not any(all(map(setting, variables)) for variables in service.keys):
        raise InvalidInput(f"{where}: no credentials ({service.advice})")


@contextmanager
def naming(where: str, missing: str = "no such object") -> Iterator[None]:
    """Translate errors of the library to ours: one line that begins with `where`."""
    try:
        yield
    except FileNotFoundError as e:
        # a missing bucket must not look like an empty one
        if any(sign in str(e) for sign in _NO_BUCKET):
            raise StorageFailure(f"{where}: {_problem(str(e))}") from None
        raise NotFound(f"{where}: {missing}") from None
    except BaseError as e:
        raise StorageFailure(f"{where}: {_problem(str(e))}") from None
    except ValueError as e:
        raise InvalidInput(f"{where}: {_first_line(str(e))}") from None


_user_process: int | None = None


def check_process(where: str) -> None:
    """Refuse requests in a forked process. The library's threads do not survive a fork: it would hang."""
    global _user_process
    if _user_process is None:
        _user_process = os.getpid()
    elif _user_process != os.getpid():
        raise Unsupported(
            f"{where}: this process was forked from one that had used a cloud (start processes with spawn instead)"
        )


def status_of(error: BaseError) -> int | None:
    """The HTTP status in an error; None if there was no response."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def is_cut_off(error: BaseError) -> bool:
    """Whether the connection was lost or timed out, so that a retry may succeed."""
    return _CUT_OFF.search(str(error)) is not None


def _problem(text: str) -> str:
    """The cause of an error, without the URL of the request, which may contain a signature."""
    if any(sign in text for sign in _NO_BUCKET):
        return "no such bucket (create it first)"
    if match := _STATUS.search(text):
        if match[1] in ("401", "403"):
            return "permission denied"
        code = _CODE.search(text)
        return f"{match[2].strip().lower()} ({match[1]})" + (f": {code[1]}" if code else "")
    return next((cause for sign, cause in _CAUSES if sign in text), _first_line(text))


def _first_line(text: str) -> str:
    return _URL.sub("...", text.partition("\n")[0].strip())
