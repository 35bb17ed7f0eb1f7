"""Transactions over several pools, from Python."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import pytest

import shoal
from shoal.api.lake import Lake
from shoal.api.pool import Pool
from shoal.errors import AlreadyExists, Conflict, InvalidInput, NotFound, ReadOnly
from shoal.ids import to_text
from shoal.lake import sessions
from shoal.lake.branches import Refs
from shoal.lake.cuts import Cut
from shoal.lake.names import Names
from shoal.local import sql_changes
from shoal.local.lake_transactions import LocalLakeTransaction
from shoal.planner import change_plans


@pytest.fixture(autouse=True)
def orders(lake: Lake) -> Pool:
    return lake.create("orders", key="id")


@pytest.fixture(autouse=True)
def items(lake: Lake) -> Pool:
    items = lake.create("items", key="id", primary="id")
    items.load([{"id": 1, "stock": 10}, {"id": 2, "stock": 20}])
    return items


def values(lake: Lake, program: str) -> list[Any]:
    return lake.query(program).to_list()


def test_all_pools_change_at_the_end(lake: Lake, orders: Pool, items: Pool) -> None:
    with lake.transaction(["orders", "items"], message="sold", author="ada") as t:
        t.load("orders", [{"id": 7, "item": 1}])
        t.upsert("items", [{"id": 1, "stock": 9}])
        t.delete("items", keys=[2])
        assert t.query("from items | sort id").to_list() == [{"id": 1, "stock": 9}]
        assert t.query("from orders | count()").to_list() == [1]
        assert t.sql("select count(*) as n from orders join items on orders.item = items.id").to_list() == [{"n": 1}]
        assert values(lake, "from orders") == []
    assert values(lake, "from items") == [{"id": 1, "stock": 9}]
    assert [(each.message, each.author) for each in orders.log()] == [("sold", "ada")]
    assert next(iter(items.log())).message == "sold"
    (listed,) = values(lake, "from :transactions | state=='committed'")
    assert (listed["state"], listed["message"]) == ("committed", "sold")
    assert {part["name"] for part in listed["parts"]} == {"orders", "items"}
    assert orders.resolve(t.id) == orders.resolve()


def test_branches_take_part_and_the_commits_are_named_by_them(lake: Lake, orders: Pool, items: Pool) -> None:
    items.create_branch("dev", "main")
    t = lake.begin(["orders", "items@dev"])
    assert t.places == ("orders@main", "items@dev")
    t.load("orders", [{"id": 7}])
    t.update("items@dev", "id == 1", "stock := stock - 1")
    commits = t.commit()
    assert commits == {"orders@main": orders.resolve(), "items@dev": items.resolve("dev")}
    assert values(lake, "from items@dev | id == 1") == [{"id": 1, "stock": 9}]
    assert values(lake, "from items | id == 1") == [{"id": 1, "stock": 10}]


def test_an_error_abandons_all_of_it(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), lake.transaction(["orders", "items"]) as t:
        t.load("orders", [{"id": 7}])
        t.delete("items", where="id == 1")
        raise ZeroDivisionError
    assert values(lake, "from orders") == []
    assert values(lake, "from items | count()") == [2]


def test_one_branch_of_it_does_not_end_alone(lake: Lake) -> None:
    with lake.transaction(["orders", "items"]) as t:
        part = t.part("orders")
        part.load([{"id": 7}])
        for end in (part.commit, part.abandon):
            with pytest.raises(InvalidInput, match="ends as a whole"):
                end()
        t.delete("items", keys=[2])
    assert values(lake, "from orders") == [{"id": 7}]
    assert values(lake, "from items | yield id") == [1]


def test_a_conflict_in_one_pool_leaves_all_as_they_were(lake: Lake, items: Pool) -> None:
    error = r"^transaction \w+ on items@main: another .* primary key 1 meanwhile \(begin again, and repeat the change"
    with pytest.raises(Conflict, match=error), lake.transaction(["orders", "items"]) as t:
        t.load("orders", [{"id": 7}])
        t.upsert("items", [{"id": 1, "stock": 9}])
        items.upsert([{"id": 1, "stock": 8}])
    assert values(lake, "from orders") == []
    assert values(lake, "from items | id == 1") == [{"id": 1, "stock": 8}]
    with pytest.raises(Conflict, match="primary key 1"):
        t.commit()


def test_it_reads_one_state_of_all_pools_however_late_it_reads_them(lake: Lake, orders: Pool, items: Pool) -> None:
    third = lake.create("third", key="id")
    t = lake.begin(["orders", "items"])
    with lake.transaction(["orders", "third"]) as other:
        other.load("orders", [{"id": 1}])
        other.load("third", [{"id": 1}])
    assert t.query("from third | count()").to_list() == []
    assert t.query("from orders | count()").to_list() == []
    assert [row["n"] for row in t.sql("select count(*) as n from third").to_list()] == [0]
    t.abandon()
    assert third.query("count()").to_list() == [1]


def test_serializable_finds_what_changed_in_any_of_its_pools(lake: Lake, items: Pool) -> None:
    t = lake.begin(["orders", "items"], isolation="serializable")
    assert t.query("from items | sum(stock)").to_list() == [30]
    t.load("orders", [{"id": 7}])
    items.upsert([{"id": 2, "stock": 0}])
    with pytest.raises(Conflict, match="has changed what it read"):
        t.commit()
    assert values(lake, "from orders") == []


def test_sql_changes_any_of_its_pools(lake: Lake) -> None:
    with lake.transaction(["orders", "items"]) as t:
        t.sql("insert into orders (id, item) values (7, 1)")
        t.sql("update items set stock = stock - 1 where id in (select item from orders)")
    assert values(lake, "from items | sort id") == [{"id": 1, "stock": 9}, {"id": 2, "stock": 20}]


def test_what_is_not_part_of_it_is_refused(lake: Lake) -> None:
    lake.create("third", key="id")
    with lake.transaction(["orders", "items"]) as t:
        with pytest.raises(NotFound, match="begun on orders@main, items@main"):
            t.load("third", [{"id": 1}])
        with pytest.raises(NotFound, match="begun on orders@main, items@main"):
            t.sql("insert into third (id) values (1)")
    with pytest.raises(InvalidInput, match="needs the pools"):
        lake.begin([])
    with pytest.raises(NotFound, match="pool not found"):
        lake.begin(["orders", "itms"])
    with pytest.raises(NotFound, match="branch not found"):
        lake.begin(["orders", "items@nowhere"])


def test_one_that_has_expired_commits_nothing(lake: Lake) -> None:
    t = lake.begin(["orders", "items"], expires=0.001)
    with pytest.raises(ReadOnly, match="has expired"):
        t.load("orders", [{"id": 7}])
        t.commit()
    assert values(lake, "from orders") == []


def test_it_is_saved_and_resumed(lake: Lake, orders: Pool) -> None:
    t = lake.begin(["orders", "items"])
    t.load("orders", [{"id": 7}])
    orders.load([{"id": 1}])
    again = lake.resume(t.save())
    again.delete("items", keys=[2])
    assert again.query("from orders").to_list() == [{"id": 7}]
    last = lake.resume(again.save())
    assert last.id == t.id
    commits = last.commit()
    assert set(commits) == {"orders@main", "items@main"}
    assert values(lake, "from orders | sort id") == [{"id": 1}, {"id": 7}]
    assert last.is_done
    with pytest.raises(InvalidInput):
        lake.resume("{}")


def copies(lake: Lake, t: Any) -> list[Any]:
    """A transaction, and what becomes of it in other processes."""
    return [t, lake.resume(t.save()), pickle.loads(pickle.dumps(t))]


@pytest.mark.direct
def test_a_copy_of_it_reads_what_it_has_read(lake: Lake) -> None:
    third = lake.create("third", key="id")
    t = lake.begin(["orders", "items"])
    t.load("orders", [{"id": 7}])
    assert t.query("from third").to_list() == []
    third.load([{"id": 1}])
    assert [each.query("from third").to_list() for each in copies(lake, t)] == [[], [], []]


@pytest.mark.direct
def test_a_copy_of_it_reads_the_cut_from_when_it_began(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, begun = sessions.begin, []
    lake.pool("orders").create_branch("dev", "main")
    lake.pool("items").create_branch("dev", "main")

    def slowly(*args: Any) -> Any:
        begun.append(1)
        if len(begun) == 2:  # the cut is there, and not yet all of the transaction
            with lake.transaction(["orders@dev", "items@dev"]) as other:
                other.load("orders@dev", [{"id": 1}])
                other.load("items@dev", [{"id": 3, "stock": 1}])
        return begin(*args)

    monkeypatch.setattr(sessions, "begin", slowly)
    t = lake.begin(["orders", "items"])
    assert isinstance(t, LocalLakeTransaction)
    counts = 'select (select count(*) from "orders@dev") as a, (select count(*) from "items@dev") as b'
    assert [each.sql(counts).to_list() for each in copies(lake, t)] == [[{"a": 0, "b": 2}]] * 3
    cut = {each.pool: each.position for each in t.parts[0].scope.cut.taken()}
    assert all(part.session.position == cut[part.pool.config.id] for part in t.parts)


def _stage(saved: bytes, number: int) -> bytes:
    t = pickle.loads(saved)
    t.load("orders", [{"id": number}])
    t.upsert("items", [{"id": 100 + number, "stock": number}])
    return pickle.dumps(t)


@pytest.mark.direct
def test_processes_stage_into_copies_of_it(lake: Lake) -> None:
    t = lake.begin(["orders", "items"])
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        saved = pickle.dumps(t)
        copies = workers.starmap(_stage, [(saved, number) for number in range(3)])
    t.take_over(*map(pickle.loads, copies))
    t.commit()
    assert values(lake, "from orders | sort id") == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert values(lake, "from items | id >= 100 | count()") == [3]


@pytest.mark.direct
def test_queries_over_several_pools_read_them_at_one_time(lake: Lake) -> None:
    """A reader that looks while transactions move stock to orders never sees a part of one."""
    lake.pool("items").delete(where="where true")
    with lake.transaction(["orders", "items"]) as t:
        t.load("orders", [{"id": 0, "n": 0}])
        t.load("items", [{"id": 0, "n": 100}])
    reader = shoal.open(lake.uri)
    for number in range(1, 4):
        with lake.transaction(["orders", "items"]) as t:
            t.load("orders", [{"id": number, "n": 10}])
            t.load("items", [{"id": number, "n": -10}])
        program = "fork (=> from orders => from items) | sum(n)"
        assert reader.query(program).to_list() == [100]
        statement = "select sum(n) as n from (select n from orders union all select n from items)"
        assert reader.sql(statement).to_list() == [{"n": 100}]


@pytest.mark.direct
@pytest.mark.parametrize(
    "program",
    [
        "from :branches | name := pool.name, commit := branch.commit",
        "fork (=> from a:branches => from b:branches) | name := pool.name, commit := branch.commit",
        "fork (=> from a:log => from b:log) | is(<lake.BranchTip>) | put name := Name, commit := Commit",
    ],
)
def test_metadata_of_branches_are_from_one_time(lake: Lake, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    for name in "ab":
        lake.create(name, key="k").load([{"k": 0}])
    then = {lake.pool(name).resolve() for name in "ab"}
    refs, seen = Names.refs, set[str]()

    def slowly(self: Names, cut: Cut | None = None) -> Refs:
        if self.pool in "ab" and self.pool not in seen:
            seen.add(self.pool)
            if len(seen) == 2:  # one of them has been read
                with lake.transaction(["a", "b"]) as t:
                    t.load("a", [{"k": 1}])
                    t.load("b", [{"k": 1}])
        return refs(self, cut)

    monkeypatch.setattr(Names, "refs", slowly)
    shown = {to_text(each["commit"]) for each in values(lake, program)}
    assert len(seen) == 2
    assert len(shown & then) in (0, 2)


def test_metadata_of_branches_go_with_the_pools_that_are_read(lake: Lake, orders: Pool, items: Pool) -> None:
    with lake.transaction(["orders", "items"]) as t:
        t.load("orders", [{"id": 1}])
        t.delete("items", keys=[1])
    t = lake.begin(["orders"])
    then = orders.resolve(), items.resolve()
    assert t.query("from items | count()").to_list() == [1]
    with lake.transaction(["orders", "items"]) as other:
        other.load("orders", [{"id": 2}])
        other.delete("items", keys=[2])
    shown = t.query("from :branches | put name := pool.name | sort -r name | yield branch.commit").to_list()
    assert tuple(map(to_text, shown)) == then
    t.abandon()


@pytest.mark.direct
@pytest.mark.parametrize(
    "statement",
    [
        "update a set n = (select count(*) from b) - (select count(*) from a) where k = 0",
        "delete from a where k = 0 and (select count(*) from a) <> (select count(*) from b)",
        """merge into a using (select (select count(*) from b) - (select count(*) from a) as n) d on a.k = 0
        when matched then update set n = d.n""",
        "insert into a (k, n) select -1, (select count(*) from b) - (select count(*) from a)",
    ],
)
def test_a_statement_that_changes_a_pool_reads_others_at_one_time_with_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    for name in "ab":
        lake.create(name, key="k").load([{"k": 0, "n": 0}])
    planned, planning = [], change_plans.plan_rows

    def slowly(*args: Any) -> Any:
        planned.append(1)
        with lake.transaction(["a", "b"]) as t:
            t.load("a", [{"k": len(planned), "n": 0}])
            t.load("b", [{"k": len(planned), "n": 0}])
        return planning(*args)

    monkeypatch.setattr(sql_changes, "plan_rows", slowly)
    lake.sql(statement).to_list()
    assert values(lake, "from a | k <= 0 | n == 0 | count()") == [2 if statement.startswith("insert") else 1]


def test_what_a_query_in_it_loads_is_staged(lake: Lake, orders: Pool, items: Pool) -> None:
    t = lake.begin(["orders", "items"])
    t.load("orders", [{"id": 7, "stock": 1}])
    assert t.query("from orders | load items").to_list() == []
    assert t.query("from items | id==7").to_list() == [{"id": 7, "stock": 1}]
    t.query("yield {id:8,stock:2} | fork (=> load orders => put stock:=3 | load items)").to_list()
    assert t.query("from items | id==8").to_list() == [{"id": 8, "stock": 3}]
    assert values(lake, "from items | id>6") == values(lake, "from orders") == []
    with pytest.raises(AlreadyExists, match="primary key"):
        t.query("yield {id:9,stock:1},{id:1,stock:1} | fork (=> load orders => load items)").to_list()
    with pytest.raises(
        InvalidInput, match=r"items@dev is not part of this transaction .*begun on orders@main, items@main"
    ):
        t.query("from orders | fork (=> load orders => load items@dev)").to_list()
    assert t.query("from orders | count()").to_list() == [2], "a program that fails stages nothing"
    t.abandon()
    assert values(lake, "from items | id>6") == []
    with lake.transaction(["orders", "items"], message="by a program") as t:
        t.query("from items | load orders").to_list()
    assert values(lake, "from orders | count()") == [2]
    assert [each.message for each in orders.log()] == ["by a program"]


def test_what_a_query_in_a_transaction_on_one_branch_loads_is_staged(lake: Lake, orders: Pool, items: Pool) -> None:
    t = items.begin()
    t.query("put id:=id+10 | load items").to_list()
    assert t.query("count()").to_list() == [4]
    with pytest.raises(InvalidInput, match=r"orders@main is not part of this transaction .*begun on items@main"):
        t.query("load orders").to_list()
    assert values(lake, "from items | count()") == [2]
    t.commit()
    assert values(lake, "from items | count()") == [4]
    assert values(lake, "from orders") == []


# ---- programs with several loads


def test_the_loads_of_a_program_commit_together(lake: Lake, orders: Pool, items: Pool) -> None:
    program = "yield {id:1},{id:2},{id:3} | switch (case id % 2 == 1 => load orders case id == 2 => load third)"
    third = lake.create("third", key="id")
    commits = [to_text(each) for each in values(lake, program)]
    assert sorted(commits) == sorted(map(str, (orders.resolve(), third.resolve())))
    assert values(lake, "from orders | sort id") == [{"id": 1}, {"id": 3}]
    assert values(lake, "from third") == [{"id": 2}]
    (listed,) = values(lake, "from :transactions | state=='committed'")
    assert len(listed["parts"]) == 2


def test_if_one_load_of_a_program_fails_none_is_done(lake: Lake, orders: Pool, items: Pool) -> None:
    program = "yield {id:1,stock:1} | fork (=> load orders => load items)"
    with pytest.raises(AlreadyExists, match="primary key"):
        values(lake, program)
    assert orders.resolve() is None
    assert values(lake, "from items | count()") == [2]
    orders.load([{"id": 9}])
    assert values(lake, "from orders | count()") == [1]


def test_loads_of_a_program_into_one_branch_are_one_commit(lake: Lake, orders: Pool) -> None:
    program = "yield {id:1} | fork (=> load orders => put id:=2 | load orders)"
    (commit,) = values(lake, program)
    assert to_text(commit) == orders.resolve()
    assert values(lake, "from orders | count()") == [2]
    assert len(list(orders.log())) == 1
    assert values(lake, "from :transactions | state=='committed'") == []
