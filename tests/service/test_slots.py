"""Slots of callers: what is beyond them waits without a thread, and is turned away in time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from shoal.errors import TooMany
from shoal.service.slots import Slots


async def take(stack: AsyncExitStack, slots: Slots, *callers: str) -> None:
    for caller in callers:
        await stack.enter_async_context(slots.enter(caller))


def test_more_than_the_limits_are_turned_away() -> None:
    async def run() -> None:
        slots = Slots("queries", 3, 2, patience=0.01)
        async with AsyncExitStack() as stack:
            await take(stack, slots, "ann", "ann")
            with pytest.raises(TooMany, match="2 queries of ann are running"):
                await take(stack, slots, "ann")
            await take(stack, slots, "bob")
            with pytest.raises(TooMany, match="3 queries are running"):
                await take(stack, slots, "cid")
            assert slots.held() == 3
        assert slots.held() == 0
        async with AsyncExitStack() as stack:
            await take(stack, slots, "ann", "ann", "bob")

    asyncio.run(run())


def test_a_quarter_is_kept_for_callers_that_have_none() -> None:
    async def run() -> None:
        slots = Slots("queries", 8, 4, patience=0)
        async with AsyncExitStack() as stack:
            await take(stack, slots, *["ann"] * 4, *["bob"] * 2)
            with pytest.raises(TooMany, match="6 queries are running"):
                await take(stack, slots, "bob")
            await take(stack, slots, "cid", "dan")
            with pytest.raises(TooMany, match="8 queries are running"):
                await take(stack, slots, "eve")

    asyncio.run(run())


def test_nothing_is_kept_where_one_caller_may_have_all() -> None:
    async def run() -> None:
        slots = Slots("queries", 4, 4, patience=0)
        async with AsyncExitStack() as stack:
            await take(stack, slots, *["ann"] * 4)
            assert slots.held() == 4

    asyncio.run(run())


def test_a_slot_that_gets_free_goes_to_the_first_that_may_have_it() -> None:
    async def run() -> None:
        slots, order = Slots("queries", 3, 1, patience=5), list[str]()
        end = {name: asyncio.Event() for name in ("ann", "bob", "cid")}

        async def hold(caller: str, label: str, until: asyncio.Event) -> None:
            async with slots.enter(caller):
                order.append(label)
                await until.wait()

        first = [asyncio.create_task(hold(name, name, end[name])) for name in end]
        await anyio.wait_all_tasks_blocked()
        done = asyncio.Event()
        done.set()
        later = [asyncio.create_task(hold(*each, done)) for each in (("ann", "ann again"), ("dan", "dan"))]
        await anyio.wait_all_tasks_blocked()
        assert order == ["ann", "bob", "cid"]
        end["bob"].set()
        await anyio.wait_all_tasks_blocked()
        assert order[3:] == ["dan"]  # `ann` came before, and has one
        end["ann"].set()
        end["cid"].set()
        await asyncio.gather(*first, *later)
        assert order[4:] == ["ann again"]
        assert slots.held() == 0

    asyncio.run(run())


def test_a_slot_is_given_back_when_its_request_fails_or_is_cancelled_while_it_waits() -> None:
    async def run() -> None:
        slots = Slots("queries", 1, 1, patience=5)
        with pytest.raises(ZeroDivisionError):
            async with slots.enter("ann"):
                raise ZeroDivisionError

        async def wait() -> None:
            async with slots.enter("bob"):
                raise AssertionError("it was cancelled before")

        async with slots.enter("ann"):
            waiting = asyncio.create_task(wait())
            await anyio.wait_all_tasks_blocked()
            assert waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert slots.held() == 0
        async with slots.enter("bob"):
            assert slots.held() == 1

    asyncio.run(run())
