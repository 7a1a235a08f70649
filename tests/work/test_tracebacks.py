"""Where a failed attempt was raised, kept in its history for whoever asks for it."""

import asyncio
import logging
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Lease, PermanentError
from rowmill.model.errors import safe_text
from rowmill.observe.trail import KEPT_BYTES, kept_trail, trail
from rowmill.store.own.schema import own_tables
from tests.work.shop import Shop, shop_on

SECRET = "what is in a row"


def lose(value: str) -> None:
    held = value
    raise KeyError(held)


def careless(value: str) -> None:
    try:
        lose(value)
    except KeyError as error:
        raise PermanentError(value, code="lost") from error


async def tracebacks(shop: Shop) -> list[str | None]:
    attempt = own_tables(shop.mill.store.dialect.name).attempt
    statement = sa.select(attempt.c.traceback).order_by(attempt.c.id)
    return list(await shop.mill.run(lambda connection: connection.scalars(statement).all(), write=False))


async def drained(shop: Shop, **settings: Any) -> list[str | None]:
    @shop.jobs.handler()
    async def handle(job: Lease[Any]) -> None:
        careless(SECRET)

    await shop.put(1)
    await shop.drain(**settings)
    return await tracebacks(shop)


async def test_nothing_is_kept_unless_somebody_asks_for_it(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rowmill")
    async with shop_on(database_url) as shop:
        assert await drained(shop) == [None]


async def test_the_way_through_the_code_is_kept_without_values(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowmill")
    async with shop_on(database_url) as shop:
        [text] = await drained(shop, tracebacks=True)

    assert text is not None
    lines = text.splitlines()
    for function in ("handle", "careless", "lose"):
        assert any("test_tracebacks.py" in line and line.endswith(f"in {function}") for line in lines)
    assert "    raise KeyError(held)" in lines, "the line of code, and not what it held"
    assert lines.index("KeyError") < lines.index("which led to") < lines.index("PermanentError")
    assert SECRET not in text
    assert "Traceback" not in caplog.text
    assert SECRET not in caplog.text


async def test_log_level_debug_keeps_them_too(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rowmill")
    async with shop_on(database_url) as shop:
        [text] = await drained(shop)

    assert text is not None
    assert "in careless" in text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("kind", ["thread", "batch", "settling"])
async def test_handlers_of_every_kind(database_url: str, kind: str) -> None:
    async with shop_on(database_url) as shop:
        if kind == "thread":

            @shop.jobs.handler()
            def handle(job: Lease[Any]) -> None:
                careless(SECRET)

        elif kind == "batch":

            @shop.jobs.batch_handler(size=10)
            async def handle_many(jobs: list[Lease[Any]]) -> None:
                careless(SECRET)

        else:

            @shop.jobs.handler()
            async def settle(job: Lease[Any]) -> None:
                async with job.settling():
                    careless(SECRET)

        await shop.put(2)
        await shop.drain(tracebacks=True)
        found = await tracebacks(shop)

    assert len(found) == 2
    assert all(text is not None and "in careless" in text and SECRET not in text for text in found)


async def test_the_errors_of_a_group_are_told_one_by_one(database_url: str) -> None:
    async def lose_by_itself() -> None:
        lose(SECRET)

    async def careless_by_itself() -> None:
        careless(SECRET)

    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(lose_by_itself())
                group.create_task(careless_by_itself())

        await shop.put(1)
        await shop.drain(tracebacks=True)
        [text] = await tracebacks(shop)

    assert text is not None
    lines = [line.rpartition("test_tracebacks.py")[2] for line in text.splitlines()]
    first, second = lines.index("  + 1 of 2"), lines.index("  + 2 of 2")
    assert lines[first - 1] == "ExceptionGroup"
    assert any(line.endswith("in lose_by_itself") for line in lines[first:second])
    assert lines[second - 1] == "  | KeyError"
    assert any(line.endswith("in careless_by_itself") for line in lines[second:])
    assert lines[-1] == "  | PermanentError"
    assert SECRET not in text


def test_groups_without_end_are_told_to_some_depth() -> None:
    error: Exception = ValueError(SECRET)
    for _ in range(2000):
        error = ExceptionGroup(SECRET, [error] * 100)
    many = kept_trail(error)

    inner = ValueError(SECRET)
    circle = ExceptionGroup(SECRET, [inner])
    inner.__context__ = circle

    assert len(many.encode()) <= KEPT_BYTES + len("…".encode())
    assert trail(circle).splitlines()[-1] == "  | ValueError"
    assert SECRET not in many + trail(circle)


async def test_a_long_one_is_cut_to_its_end(database_url: str) -> None:
    # A function that calls itself is folded by Python, so these are a hundred different ones, with a name that no
    # database would take as it stands.
    scope: dict[str, Any] = {"previous": lambda: careless(SECRET)}
    for number in range(200):
        source = f"def step_{number}(inner=previous):\n    inner()\nprevious = step_{number}"
        exec(compile(source, f"generated\udcff_{number}_{'é' * 40}.py", "exec"), scope)

    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            scope["previous"]()

        await shop.put(1)
        await shop.drain(tracebacks=True)
        [text] = await tracebacks(shop)

    assert text is not None
    assert len(text.encode()) <= KEPT_BYTES + len("…".encode())
    assert text.startswith("…")
    assert text.endswith("PermanentError")
    assert text == safe_text(text, KEPT_BYTES)
