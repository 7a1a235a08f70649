"""Two processes that declare one limit in two ways: the stricter holds for both, for as long as both live."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.cli import limits as command
from rowmill.cli import stats
from rowmill.doctor import audit
from rowmill.limits import client
from rowmill.model.limits import Breaker, Budget, LimitDeclaration, Rate, strictest
from rowmill.store.limits import declarations
from rowmill.store.own.fleet import ALIVE_SECONDS
from rowmill.store.own.schema import own_tables
from tests.conformance.fleet import until


class Version:
    """One version of an application, in a process of its own as far as limits are concerned."""

    def __init__(self, url: str, **declared: Any) -> None:
        self.mill = rm.Mill(url)
        self.eqc = self.mill.limit("eqc", **declared)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.mill.observe(lambda name, fields: self.events.append((name, dict(fields))))

    async def calls(self, most: int) -> int:
        """How many of so many calls have room."""
        made = 0
        for _ in range(most):
            try:
                async with self.eqc.call():
                    made += 1
            except rm.errors.Limited:
                break
        return made

    async def hear(self) -> None:
        """Say again how we declare it, and hear how others do, as every process does every few seconds."""
        ours = self.mill.limits.own_client()
        await ours._declare([standing.ours for standing in ours._declarations.values()])

    def emitted(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]


@asynccontextmanager
async def versions(url: str, *declared: dict[str, Any]) -> AsyncIterator[list[Version]]:
    found = [Version(url, **one) for one in declared]
    await found[0].mill.migrate()
    async with found[0].mill.opened(), found[-1].mill.opened():
        yield found


async def leave(version: Version) -> None:
    """It has been silent for so long that it is taken for gone."""

    def work(connection: sa.Connection) -> None:
        row = own_tables(connection.dialect.name).limit_declaration
        gone = sa.update(row).where(row.c.declared == version.eqc.terms.declared.to_json())
        connection.execute(gone.values(seen=row.c.seen - ALIVE_SECONDS - 1))

    await version.mill.run(work)


LOOSE, STRICT = {"rate": Rate(50, per=3600.0)}, {"rate": Rate(20, per=3600.0)}


async def test_the_stricter_of_two_rates_holds_for_both(database_url: str) -> None:
    async with versions(database_url, LOOSE, STRICT) as [loose, strict]:
        assert await loose.calls(10) == 10
        assert await strict.calls(5) == 5
        await loose.hear()
        assert await loose.calls(50) == 5
        assert await strict.calls(50) == 0


async def test_one_that_comes_later_keeps_to_the_stricter_from_its_first_call(database_url: str) -> None:
    async with versions(database_url, LOOSE, STRICT) as [loose, strict]:
        assert await strict.calls(1) == 1
        assert await loose.calls(50) == 19


async def test_what_was_stricter_ends_when_nobody_declares_it_any_more(database_url: str) -> None:
    """A deploy that raises a limit: the old version goes, the new one gets what it asks for."""
    async with versions(database_url, STRICT, LOOSE) as [old, new]:
        await old.calls(1)
        assert await new.calls(50) == 19
        await leave(old)
        await new.hear()
        assert await new.calls(50) == 30
        assert [fields["limit"] for fields in new.emitted("limit_agrees")] == ["eqc"]


async def test_a_process_that_was_away_asks_what_holds_before_it_calls(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with versions(database_url, LOOSE, STRICT) as [loose, strict]:
        await loose.calls(1)
        await strict.calls(1)
        monkeypatch.setattr(client, "DECLARED_SECONDS", -1.0)  # whatever it heard is too old
        assert await loose.calls(50) == 18


async def test_every_process_says_so_again_while_it_lives(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it makes no calls."""
    monkeypatch.setattr(client, "DECLARE_EVERY", 0.01)
    async with versions(database_url, STRICT, LOOSE) as [idle, busy]:
        await idle.calls(1)
        await leave(idle)
        await busy.calls(1)
        await until(lambda: bool(busy.emitted("limit_differs")))
        assert await busy.calls(50) == 18


async def test_both_warn_once_with_both_numbers(database_url: str) -> None:
    async with versions(database_url, LOOSE, STRICT) as [loose, strict]:
        await loose.calls(1)
        await strict.calls(1)
        for _ in range(3):
            await loose.hear()
            await strict.hear()
        texts = [
            "50 calls in 3600 s, 5 failures, then a pause of 5 s",
            "20 calls in 3600 s, 5 failures, then a pause of 5 s",
        ]
        assert loose.emitted("limit_differs") == [
            {"limit": "eqc", "ours": texts[0], "others": texts[1], "holds": texts[1]}
        ]
        assert strict.emitted("limit_differs") == [
            {"limit": "eqc", "ours": texts[1], "others": texts[0], "holds": texts[1]}
        ]


async def test_the_fewest_slots_and_the_smallest_budget_hold(database_url: str) -> None:
    loose, strict = {"concurrent": 5, "budget": Budget(9)}, {"concurrent": 2, "budget": Budget(4)}
    async with versions(database_url, loose, strict) as [one, two]:
        async with two.eqc.call(), one.eqc.call():
            with pytest.raises(rm.errors.Limited) as refused:
                await one.eqc.call().__aenter__()
            assert refused.value.code == "limit_slots"
            assert (await one.eqc.state()).slots_limit == 2
        assert await one.calls(9) == 2
        state = await one.eqc.state()
        assert (state.spent, state.budget) == (4, 4)


async def test_people_are_told(database_url: str) -> None:
    async with versions(database_url, LOOSE, STRICT) as [loose, strict]:
        await loose.calls(1)
        await strict.calls(1)
        [one] = await loose.mill.run(lambda connection: command.summaries(connection, loose.mill))
        assert one.holds.startswith("20 calls in 3600 s")
        assert "declared in 2 ways (20 calls in 3600 s" in stats.of_limit(one)
        states, _, _ = await loose.mill.run(lambda connection: command.states(connection, loose.mill, None, 10))
        assert [state.calls_limit for state in states] == [20]
        [finding] = [one for one in await audit(loose.mill.store, []) if one.code == "limit_differs"]
        assert "limit eqc is declared in 2 ways" in finding.what


async def test_one_declaration_is_nothing_to_tell(database_url: str) -> None:
    async with versions(database_url, LOOSE, LOOSE) as [one, two]:
        await asyncio.gather(one.calls(3), two.calls(3))
        assert one.emitted("limit_differs") == two.emitted("limit_differs") == []
        [found] = await one.mill.run(lambda connection: command.summaries(connection, one.mill))
        assert found.declared == ()


async def test_what_another_version_of_rowmill_wrote_is_passed_over(database_url: str) -> None:
    async with versions(database_url, LOOSE) as [one]:
        await one.calls(1)
        row = own_tables(one.mill.store.dialect.name).limit_declaration
        new = sa.insert(row).values(name="eqc", declared=json.dumps({"rate": {"a": 1}}), seen=4e9)
        await one.mill.run(lambda connection: connection.execute(new).close())
        await one.hear()
        assert await one.mill.run(lambda connection: declarations.holding(connection, "eqc")) is not None
        assert one.emitted("limit_differs") == []


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        (LimitDeclaration(Rate(50, 1.0)), LimitDeclaration(Rate(20, 1.0)), LimitDeclaration(Rate(20, 1.0, 0.05))),
        (LimitDeclaration(Rate(50, 1.0)), LimitDeclaration(Rate(1000, 60.0)), LimitDeclaration(Rate(50, 60.0, 3.0))),
        (LimitDeclaration(Rate(50, 1.0)), LimitDeclaration(), LimitDeclaration(Rate(50, 1.0, 0.05))),
        (LimitDeclaration(concurrent=3), LimitDeclaration(concurrent=7), LimitDeclaration(concurrent=3)),
        (LimitDeclaration(concurrent=3), LimitDeclaration(), LimitDeclaration(concurrent=3)),
        (LimitDeclaration(budget=Budget(9)), LimitDeclaration(budget=Budget(4)), LimitDeclaration(budget=Budget(4))),
        (
            LimitDeclaration(budget=Budget(9, "hour", crashed="spent")),
            LimitDeclaration(budget=Budget(40, "month", "Asia/Shanghai")),
            LimitDeclaration(budget=Budget(9, "month", "Asia/Shanghai", "spent")),
        ),
        (
            LimitDeclaration(breaker=Breaker(5, 1.0, 60.0)),
            LimitDeclaration(breaker=Breaker(3, 5.0, 10.0)),
            LimitDeclaration(breaker=Breaker(3, 5.0, 60.0)),
        ),
    ],
)
def test_what_is_stricter(one: LimitDeclaration, other: LimitDeclaration, holds: LimitDeclaration) -> None:
    assert strictest([one, other]) == strictest([other, one]) == holds


@pytest.mark.parametrize(
    "declared",
    [
        LimitDeclaration(),
        LimitDeclaration(Rate(5, 2.0, 0.7), 3, Budget(9, "month", "Asia/Shanghai", "spent"), Breaker(2, 1.0, 9.0)),
    ],
)
def test_a_declaration_is_read_as_it_was_written(declared: LimitDeclaration) -> None:
    assert LimitDeclaration.from_json(declared.to_json()) == declared
