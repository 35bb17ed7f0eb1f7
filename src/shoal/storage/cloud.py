"""Objects in S3, Google Cloud Storage and Azure. Creates use their own handle, which never retries.

If the response to a create that landed is lost, a retry would collide with the object that the create wrote, and
report it as lost. Without retries every response is about the one request that was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.model.node import frozen
from shoal.storage.backoff import backoff
from shoal.storage.buckets import check_process, is_cut_off, naming, open_bucket, status_of
from shoal.storage.locations import parse_location
from shoal.storage.store import Created, Listed, check_key

if TYPE_CHECKING:  # the library has these for type checkers only
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

T = TypeVar("T")

_PART = 16 << 20
"""A larger object is uploaded in parts, each with its own timeout. It appears when all parts are there."""
_PARTS_AT_ONCE = 4
_PAGE = 1000


@frozen
class Timeouts:
    """Timeouts in seconds.

    `silence` limits the time without a byte from the server, and the time to send one request. `deadline` is when a
    call that keeps failing gives up; a response that keeps arriving may take as long again.
    """

    silence: float = 30.0
    deadline: float = 120.0
    first_pause: float = 0.1
    longest_pause: float = 5.0

    @property
    def last_attempt(self) -> float:
        """When to start the last attempt, so that it can fail before the deadline."""
        return max(self.deadline - self.silence - self.longest_pause, 0)

    def client(self) -> ClientConfig:
        """Client options of the library."""
        silence = timedelta(seconds=self.silence)
        return {
            "connect_timeout": silence,
            "read_timeout": silence,
            "timeout": timedelta(seconds=max(self.deadline, self.silence)),
        }

    def retry(self) -> RetryConfig:
        """Retry options of the library."""
        return {
            "max_retries": 1_000_000,
            "retry_timeout": timedelta(seconds=self.last_attempt),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_pause),
                "max_backoff": timedelta(seconds=self.longest_pause),
                "base": 2,
            },
        }


_NO_RETRIES: RetryConfig = {"max_retries": 0}


class _Attempts:
    """The attempts of one call: backoff with jitter until the deadline."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._end = time.monotonic() + timeouts.last_attempt
        self._pauses = backoff(timeouts.first_pause, timeouts.longest_pause)

    def pause(self, error: BaseError) -> None:
        """Wait before the next attempt; raise the error if a retry cannot help or comes too late."""
        # 412: the object was replaced during the read
        is_transient = is_cut_off(error) or status_of(error) == 412
        if not is_transient or time.monotonic() > self._end:
            raise error
        time.sleep(next(self._pauses))


class CloudStore:
    """A bucket, or a prefix in it: `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`."""

    def __init__(self, uri: str, timeouts: Timeouts = Timeouts()) -> None:
        location = self._location = parse_location(uri)
        client = timeouts.client()
        self._timeouts = timeouts
        self._store = open_bucket(location.scheme, location.bucket, location.uri, client, timeouts.retry())
        self._creating = open_bucket(location.scheme, location.bucket, location.uri, client, _NO_RETRIES)

    @property
    def uri(self) -> str:
        return self._location.uri

    def _path(self, key: str) -> str:
        """The name of an object in the bucket. Call it before each request: it checks the process as well."""
        check_process(self.uri)
        return self._location.path(check_key(key))

    def _call(self, key: str, act: Callable[[str], T]) -> T:
        """Call `act` with the path of an object, and retry errors that the library does not retry."""
        path = self._path(key)
        with naming(f"{self.uri}/{key}"):
            attempts = _Attempts(self._timeouts)
            while True:
                try:
                    return act(path)
                except BaseError as e:
                    attempts.pause(e)

    def get(self, key: str) -> bytes:
        return self._call(key, lambda path: bytes(obstore.get(self._store, path).bytes()))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:  # an empty range cannot be requested, but a missing object must be reported
            self.size(key)
            return b""
        return self._call(key, lambda path: self._get_range(path, start, length))

    def _get_range(self, path: str, start: int, length: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._store, path, start=start, length=length))
        except BaseError as e:
            if _is_past_the_end(e):
                return b""
            raise

    def size(self, key: str) -> int:
        return self._call(key, lambda path: obstore.head(self._store, path)["size"])

    @property
    def has_own_clock(self) -> bool:
        return True

    def modified(self, key: str) -> float:
        return self._call(key, lambda path: obstore.head(self._store, path)["last_modified"].timestamp())

    def put(self, key: str, data: bytes) -> None:
        self._call(
            key,
            lambda path: obstore.put(self._store, path, data, chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE),
        )

    def create(self, key: str, data: bytes) -> Created:
        path, data = self._path(key), bytes(data)
        try:
            obstore.put(self._creating, path, data, mode="create")
        except AlreadyExistsError:
            return Created.LOST
        except (PermissionDeniedError, UnauthenticatedError):
            # 401 and 403 are about the only request, and stores check credentials before they write anything
            raise StorageFailure(f"{self.uri}/{key}: permission denied") from None
        except Exception:
            # the request may have been sent: not an error, the caller reads the object to find out
            return Created.UNKNOWN
        return Created.LANDED

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Lists the last complete directory in the prefix and filters: the library lists whole segments only."""
        start = prefix.rpartition("/")[0]
        within = self._location.path(check_key(start) if start else "")
        skip = len(self._location.path("x")) - 1
        for item in self._walk(within):
            key = item["path"][skip:]
            if key.startswith(prefix) and _is_key(key):
                yield Listed(key, item["size"], item["last_modified"].timestamp())

    def _walk(self, within: str) -> Iterator[ObjectMeta]:
        """All objects below a directory. An interrupted listing resumes after the last name: clouds list by name."""
        check_process(self.uri)
        last: str | None = None
        attempts = _Attempts(self._timeouts)
        with naming(self.uri):
            while True:
                try:
                    for page in obstore.list(self._store, within or None, offset=last, chunk_size=_PAGE):
                        for item in page:
                            yield item
                            last = item["path"]
                        attempts = _Attempts(self._timeouts)
                    return
                except BaseError as e:
                    attempts.pause(e)

    def delete(self, key: str) -> None:
        with suppress(NotFound):  # only S3 accepts the delete of a missing object
            self._call(key, lambda path: obstore.delete(self._store, path))


def _is_past_the_end(error: BaseError) -> bool:
    """Whether a range starts after the end. Most servers answer 416; for others the library detects it."""
    return status_of(error) == 416 or "Wanted range starting at" in str(error)


def _is_key(name: str) -> bool:
    """Whether a name is an object key. Other programs may store objects with other names in the bucket."""
    try:
        check_key(name)
    except InvalidInput:
        return False
    return True
