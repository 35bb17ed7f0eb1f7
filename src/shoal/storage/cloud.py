"""Objects in S3, Google Cloud Storage and Azure. Creates go by a handle of their own that never tries again.

With retries a create that landed and whose answer got lost is sent once more and turned down by its own
object: it would come back as lost. Without them every answer is about the one request that was sent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from shoal.errors import InvalidInput, NotFound, StorageFailure
from shoal.storage.buckets import check_process, is_cut_off, naming, open_bucket, status_of
from shoal.storage.locations import parse_location
from shoal.storage.store import Created, Listed, check_key

if TYPE_CHECKING:  # the library has these for type checkers only
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

T = TypeVar("T")

_PART = 16 << 20
"""A larger object is put in parts, so that each has the time of a request for itself. It appears when all are there."""
_PARTS_AT_ONCE = 4
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds.

    `silence` is how long a server may say nothing, and how long sending one request may take; `deadline` is when
    a call that keeps failing gives up. Bytes that keep coming may take as long again.
    """

    silence: float = 30.0
    deadline: float = 120.0
    first_pause: float = 0.1
    longest_pause: float = 5.0

    @property
    def last_try(self) -> float:
        """When to try for the last time: what is left is for that try to fail."""
        return max(self.deadline - self.silence - self.longest_pause, 0)

    def client(self) -> ClientConfig:
        """For the library."""
        silence = timedelta(seconds=self.silence)
        return {
            "connect_timeout": silence,
            "read_timeout": silence,
            "timeout": timedelta(seconds=max(self.deadline, self.silence)),
        }

    def retry(self) -> RetryConfig:
        """For the library."""
        return {
            "max_retries": 1_000_000,
            "retry_timeout": timedelta(seconds=self.last_try),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_pause),
                "max_backoff": timedelta(seconds=self.longest_pause),
                "base": 2,
            },
        }


_NEVER_AGAIN: RetryConfig = {"max_retries": 0}


class _Tries:
    """The tries of one call, from now on."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._end = time.monotonic() + timeouts.last_try
        self._pause = timeouts.first_pause
        self._longest_pause = timeouts.longest_pause

    def pause(self, error: BaseError) -> None:
        """Wait for the next try; raise the error if none would help or it is too late for one."""
        # 412 is for an object that was replaced while it was read
        may_pass = is_cut_off(error) or status_of(error) == 412
        if not may_pass or time.monotonic() > self._end:
            raise error
        time.sleep(random.uniform(0.5, 1) * self._pause)
        self._pause = min(2 * self._pause, self._longest_pause)


class CloudStore:
    """A bucket, or what begins with a prefix in it: `s3://bucket/prefix`, `gs://...` or `az://container/prefix`."""

    def __init__(self, uri: str, timeouts: Timeouts = Timeouts()) -> None:
        place = self._place = parse_location(uri)
        client = timeouts.client()
        self._timeouts = timeouts
        self._store = open_bucket(place.scheme, place.bucket, place.uri, client, timeouts.retry())
        self._creating = open_bucket(place.scheme, place.bucket, place.uri, client, _NEVER_AGAIN)

    @property
    def uri(self) -> str:
        return self._place.uri

    def _path(self, key: str) -> str:
        """The name of an object in the bucket, which is about to be asked for."""
        check_process(self.uri)
        return self._place.path(check_key(key))

    def _call(self, key: str, act: Callable[[str], T]) -> T:
        """Do something with the path of an object. The library does not repeat all that can be repeated."""
        path = self._path(key)
        with naming(f"{self.uri}/{key}"):
            tries = _Tries(self._timeouts)
            while True:
                try:
                    return act(path)
                except BaseError as e:
                    tries.pause(e)

    def get(self, key: str) -> bytes:
        return self._call(key, lambda path: bytes(obstore.get(self._store, path).bytes()))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:  # there is no way to ask for nothing, but the object has to be there
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
            # 401 and 403 answer the only request there was, and stores look at keys before they look at bytes
            raise StorageFailure(f"{self.uri}/{key}: permission denied") from None
        except Exception:
            # whatever it was, the request may have been under way: no error, the caller reads the object
            return Created.UNKNOWN
        return Created.LANDED

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Asks for the last directory that the prefix names whole: the library lists by whole segments only."""
        start = prefix.rpartition("/")[0]
        within = self._place.path(check_key(start) if start else "")
        skip = len(self._place.path("x")) - 1
        for item in self._walk(within):
            key = item["path"][skip:]
            if key.startswith(prefix) and _is_key(key):
                yield Listed(key, item["size"], item["last_modified"].timestamp())

    def _walk(self, within: str) -> Iterator[ObjectMeta]:
        """All below a directory. A listing that is cut off goes on after the last name: clouds list by name."""
        check_process(self.uri)
        last: str | None = None
        tries = _Tries(self._timeouts)
        with naming(self.uri):
            while True:
                try:
                    for page in obstore.list(self._store, within or None, offset=last, chunk_size=_PAGE):
                        for item in page:
                            yield item
                            last = item["path"]
                        tries = _Tries(self._timeouts)
                    return
                except BaseError as e:
                    tries.pause(e)

    def delete(self, key: str) -> None:
        with suppress(NotFound):  # S3 does not mind, the others do
            self._call(key, lambda path: obstore.delete(self._store, path))


def _is_past_the_end(error: BaseError) -> bool:
    """Most servers answer 416; where one sends something else, the library finds it out."""
    return status_of(error) == 416 or "Wanted range starting at" in str(error)


def _is_key(name: str) -> bool:
    """Others may keep things in the bucket whose names are no keys."""
    try:
        check_key(name)
    except InvalidInput:
        return False
    return True
