"""Clients that hold on to a service take nothing from others: their slots are free after the limit.

Every route of the table is driven, so a route that is new is under the same limits or fails here.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.service.attacks import ENDLESS, Caller, callers, make_lake, open_all, resident, wait_until

from shoal.local.access import LocalAccess
from shoal.local.lake import LocalLake
from shoal.service.routes import ROUTES
from shoal.service.state import THREADS_PER_CALLER, WAITING_PER_CALLER
from shoal.testing.services import serving

FLAGS = ["-auth.enabled", "-log.level", "warn"]
LIMIT = 2.0
LIMITS = {
    "by the stall": ["-limit.stall", f"{LIMIT:g}s", "-limit.time", "60s"],
    "by the time": ["-limit.stall", "60s", "-limit.time", f"{LIMIT:g}s"],
}
SLACK = 30.0
"""Seconds: the watch looks every second, an answer may say why it ends for one, and the machine may be busy."""
VALUES = "/pool/logs/diff?old=first&new=main&values=T"
OBJECTS = "/pool/logs/diff?old=first&new=main"


class World(NamedTuple):
    """A service with two callers that attack, and one that works."""

    ann: Caller
    bob: Caller
    cid: Caller


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> LocalLake:
    lake = make_lake(tmp_path_factory.mktemp("stalled"))
    access = LocalAccess(lake)
    lake.create("other", key="ts")
    for name, pool, verb in (("ann", "logs", "write"), ("bob", "logs", "write"), ("cid", "other", "write")):
        access.grant(name, pool, verb)
    access.grant("cid", "logs", "read")
    return lake


def world_of(lake: LocalLake, flags: list[str]) -> Iterator[World]:
    folder = Path(lake.uri.removeprefix("file://"))
    with serving(folder, folder.parent, flags) as served:
        yield World(*callers(lake, served, ["ann", "bob", "cid"]))
        assert served.process.poll() is None
        for line in served.lines().splitlines():
            assert json.loads(line)["level"] in ("warn", "error")


@pytest.fixture(scope="module", params=LIMITS)
def world(request: pytest.FixtureRequest, lake: LocalLake) -> Iterator[World]:
    yield from world_of(lake, [*FLAGS, *LIMITS[request.param]])


def streams(caller: Caller) -> list[bytes]:
    """Requests whose answers are long."""
    gets = ["/pool/logs/revision/main/log", "/pool/logs/revision/main/objects", VALUES]
    return [
        caller.post("/query", {"query": ENDLESS}),
        caller.post("/query?ctrl=T", {"query": "from logs"}),
        caller.post("/query/sql", {"statement": "select ts from logs"}),
        *(caller.head("GET", path, 0) for path in gets),
    ]


def check_that_others_work(caller: Caller) -> None:
    assert caller.status_seconds() < SLACK
    assert caller.query("from logs | count()") == 200
    assert caller.load("other", b'{"ts":1}') == 200
    assert caller.load("other", b'{"ts":2,"text":"' + b"x" * (2 << 20) + b'"}') == 200
    assert caller.ask("GET", "/pool")[0] == 200


def test_clients_that_do_not_read_hold_up_no_route_and_lose_their_slots(world: World) -> None:
    ann, bob, cid = world
    check_that_others_work(cid)
    assert cid.ask("POST", "/query/sql", {"statement": "select ts from logs"})[0] == 200
    before, held = cid.begun(), list[int]()

    def all_have_begun() -> bool:
        begun = cid.begun() - before
        held.append(cid.held("queries"))
        return begun == len(streams(ann))

    with ExitStack() as stack:
        open_all(stack, ann, streams(ann))
        wait_until(all_have_begun, SLACK)  # on a busy machine the first are cut off before the last begin
        assert max(held) > 0
        for caller in (ann, bob):
            open_all(stack, caller, [caller.route(route) for route in ROUTES])
        open_all(stack, bob, [*streams(bob) * 3, bob.head("GET", OBJECTS, 0)])
        check_that_others_work(cid)
        wait_until(lambda: cid.held("queries") == 0, LIMIT + SLACK)
        assert [cid.held(kind) for kind in ("changes", "uploads")] == [0, 0]
        assert ann.query("yield 1") == 200
        check_that_others_work(cid)


BY_THE_STALL = pytest.mark.parametrize("world", ["by the stall"], indirect=True)


@BY_THE_STALL
def test_requests_that_wait_take_no_threads_and_are_limited_per_caller(world: World) -> None:
    ann, bob, cid = world
    with ExitStack() as stack:
        for caller in (ann, bob):
            data = json.dumps({"query": f"{ENDLESS} | count()"}).encode()
            open_all(stack, caller, [caller.head("POST", "/query", len(data), X_Request_ID="mine") + data])
        wait_until(lambda: cid.held("queries") == 2, SLACK)
        status = [caller.head("GET", "/query/status/mine", 0) for caller in (ann, bob)]
        lines = open_all(stack, ann, status[:1] * 128) + open_all(stack, bob, status[1:] * 128)
        check_that_others_work(cid)
        refused = [line for line in lines if select.select([line], [], [], 0)[0]]
        assert {line.recv(12) for line in refused} == {b"HTTP/1.1 429"}
        assert len(lines) - len(refused) == cid.held("waiting") == 2 * WAITING_PER_CALLER
    wait_until(lambda: cid.held("waiting") == 0, SLACK)


@BY_THE_STALL
def test_listeners_are_limited_per_caller_and_take_no_threads(world: World) -> None:
    ann, _, cid = world
    with ExitStack() as stack:
        open_all(stack, ann, [ann.head("GET", "/events", 0)] * (WAITING_PER_CALLER + 1))
        wait_until(lambda: cid.held("listeners") == WAITING_PER_CALLER, SLACK)
        assert ann.ask("GET", "/events")[0] == 429
        check_that_others_work(cid)
    wait_until(lambda: cid.held("listeners") == 0, SLACK)


@BY_THE_STALL
def test_bodies_that_do_not_go_on_take_nothing_from_other_loads(world: World) -> None:
    ann, _, cid = world
    head = ann.head("POST", "/pool/logs/branch/main", 9_000_000)
    with ExitStack() as stack:
        lines = open_all(stack, ann, [head + b'{"ts":"'] * (THREADS_PER_CALLER + 10))
        wait_until(lambda: cid.held("uploads") == THREADS_PER_CALLER, SLACK)
        check_that_others_work(cid)
        wait_until(lambda: cid.held("uploads") == 0, 2 * LIMIT + SLACK)
        answers = [line.recv(1 << 16) for line in lines]
    assert all(answer.startswith(b"HTTP/1.1 400") and b"did not go on for 2 s" in answer for answer in answers)


@pytest.mark.long
def test_the_attacks_at_full_size(lake: LocalLake) -> None:
    flags = [*FLAGS, "-limit.memory", "512MiB", "-limit.time", "5s"]
    for ann, bob, cid in world_of(lake, flags):
        with ExitStack() as stack:
            for caller in (ann, bob):
                open_all(stack, caller, [caller.post("/query", {"query": ENDLESS})] * 16)
            open_all(stack, ann, [ann.head("GET", VALUES, 0)] * 40)
            open_all(stack, bob, [bob.head("GET", "/query/status/mine", 0)] * 128)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                check_that_others_work(cid)
                assert cid.status_seconds() < 1
                assert resident(cid.served) < 1 << 30
            assert cid.held("queries") == 0
            assert ann.query("yield 1") == 200


GROWING = [
    'yield "a" | ' + "yield hex(bytes(this)) | " * 70 + "yield len(this)",
    'yield "a" | ' + "yield base64(bytes(this)) | " * 80 + "yield len(this)",
    "yield 1 | " + "yield string([this]) | " * 60 + "yield len(this)",
    "yield 1 | " + "fork (=> pass => pass) | " * 30 + "count()",
    "from logs | put t:=ts+ts" + " | put t:=t+t" * 20 + " | yield len(t)",
    "from logs | collect(ts) | yield this" + " | yield [this,this,this]" * 20,
]


@pytest.mark.long
def test_queries_that_grow_leave_the_service_to_others(lake: LocalLake) -> None:
    flags = [*FLAGS, "-limit.memory", "512MiB", "-limit.time", "5s"]
    for ann, bob, cid in world_of(lake, flags):
        with ThreadPoolExecutor(8) as threads:
            callers = [ann, bob] * (len(GROWING) // 2)
            answers = [threads.submit(caller.query, text) for caller, text in zip(callers, GROWING, strict=True)]
            while not all(answer.done() for answer in answers):
                check_that_others_work(cid)
                assert cid.status_seconds() < 1
                assert resident(cid.served) < 1 << 30
            assert [answer.result() for answer in answers] == [400] * len(GROWING)
