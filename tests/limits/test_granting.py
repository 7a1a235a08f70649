"""What is granted, and when there is room again: the same on both databases, by the clock that the test turns."""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

import pytest

from rowmill.model.limits import Breaker, Budget, Rate, RefusalReason
from rowmill.store.limits.asks import Outcome
from tests.limits.granting import NOON, Asker, limiter_on, rules


@pytest.mark.parametrize("seed", range(4))
async def test_no_window_holds_more_than_the_rate_however_late_the_calls_go_out(database_url: str, seed: int) -> None:
    chance, rate = random.Random(seed), Rate(20, per=1.0)
    async with limiter_on(database_url) as limiter:
        eqc, now, made = Asker(limiter, rules(rate=rate)), NOON, []
        for number in range(150):
            now += chance.expovariate(12.0 if number // 30 % 2 else 3.0)
            late = rate.late if seed % 2 else 0.0
            taken, _ = await eqc.take(now, chance.randint(1, 12 if number // 30 % 2 else 2), late=late)
            made += [now + chance.random() * (rate.slack + taken.late) for _ in range(taken.granted)]
    made.sort()
    for place, first in enumerate(made):
        assert sum(call < first + rate.per for call in made[place:]) <= 20
    assert len(made) > 150, "and calls are made"


async def test_a_burst_is_granted_at_once_and_room_comes_back_after_the_period(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(50, per=1.0)))
        first, _ = await eqc.take(NOON, 60)
        early, _ = await eqc.take(NOON + 1.0, 1)
        late, _ = await eqc.take(NOON + 1.07, 60)
    assert (first.granted, first.reason, early.granted, late.granted) == (50, RefusalReason.RATE, 0, 50)
    assert NOON + 1.05 < first.line < NOON + 1.07


async def test_those_who_wait_get_turns_one_after_another(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(50, per=1.0)))
        one, _ = await eqc.take(NOON, 51)
        many, _ = await eqc.take(NOON, 10_000)
        after, _ = await eqc.take(NOON + 300, 60)
    assert one.line < many.line == one.line + one.step
    assert 190 < many.wait(9_999) < 230, "ten thousand rows at fifty a second"
    assert after.line < NOON + 302, "a line that is behind starts again at now"


async def test_keys_have_windows_of_their_own(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(5, per=1.0)))
        assert [(await eqc.take(NOON, 9, key=key))[0].granted for key in ("a", "b", "a")] == [5, 5, 0]


async def test_permits_that_were_not_used_go_back(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(5, per=1.0)))
        taken, _ = await eqc.take(NOON, 5)
        await eqc.finish(NOON + 0.1, "unused", bucket=taken.bucket, unused=2)
        assert (await eqc.take(NOON + 0.1, 5))[0].granted == 2


async def test_a_clock_that_is_set_back_opens_no_window_anew(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(5, per=1.0)))
        await eqc.take(NOON, 5)
        little, _ = await eqc.take(NOON - 0.9, 5)
        far, _ = await eqc.take(NOON - 3600, 5)
        later, _ = await eqc.take(NOON - 3598, 5)
    assert (little.granted, far.granted, later.granted) == (0, 0, 5)


@pytest.mark.parametrize(("before", "after"), [(1.0, 60.0), (60.0, 1.0), (10.0, 13.0), (1.0, 1.1)])
async def test_a_rate_that_is_declared_anew_keeps_what_was_counted(
    database_url: str, before: float, after: float
) -> None:
    async with limiter_on(database_url) as limiter:
        old, new = (Asker(limiter, rules(rate=Rate(10, per=per))) for per in (before, after))
        await old.take(NOON, 10)
        for n in range(1, 5):  # two versions of an application side by side
            assert (await new.take(NOON + n * 0.01, 1))[0].granted == 0
            assert (await old.take(NOON + n * 0.01, 1))[0].granted == 0
        assert (await new.take(NOON + after * 1.07 + before / 64 * 2, 1))[0].granted == 1


async def test_slots_are_taken_given_back_and_lost_with_their_lease(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(slots=3, lease=30.0))
        first, tickets = await eqc.take(NOON, 5)
        await eqc.finish(NOON + 1, "ok", tickets[:1], held=1.0)
        second, _ = await eqc.take(NOON + 1, 5)
        crashed, _ = await eqc.take(NOON + 30, 5)
    assert (first.granted, first.reason) == (3, RefusalReason.SLOTS)
    assert (second.granted, crashed.granted) == (1, 2)


async def test_a_budget_counts_what_is_reserved_and_what_is_spent(database_url: str) -> None:
    budget = Budget(10, per="day")
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(budget=budget), budget)
        first, tickets = await eqc.take(NOON, 3, costs=[4, 4, 4])
        await eqc.finish(NOON, "ok", tickets[:1], span=first.span, cost=1)
        second, _ = await eqc.take(NOON, 3, costs=[4, 1, 1])
        await eqc.finish(NOON + 1, "ok", tickets[1:], span=first.span, cost=8)
        third, _ = await eqc.take(NOON + 1, 1, costs=[2])
        tomorrow, _ = await eqc.take(NOON + 86400, 1, costs=[10])
    assert (first.granted, first.reason, first.span) == (2, RefusalReason.RESERVED, "day 2027-01-15")
    assert first.line < NOON + 1, "when a call that is under way ends, it may have cost less"
    assert (third.granted, third.reason, third.line) == (0, RefusalReason.BUDGET, NOON + 43200), "midnight"
    assert (second.granted, tomorrow.granted, tomorrow.span) == (2, 1, "day 2027-01-16")


async def test_a_cost_over_its_estimate_is_noted_and_refuses_the_next(database_url: str) -> None:
    budget = Budget(10, per="day")
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(budget=budget), budget)
        taken, tickets = await eqc.take(NOON, 1, costs=[5])
        for _ in range(2):  # an end that is told twice counts once
            await eqc.finish(NOON, "ok", tickets, span=taken.span, cost=9)
        assert [(await eqc.take(NOON, 1, costs=[n]))[0].granted for n in (2, 1)] == [0, 1]


@pytest.mark.parametrize(("crashed", "left"), [("back", 10), ("spent", 5)])
async def test_what_a_crashed_process_reserved_comes_back_or_is_spent(
    database_url: str, crashed: str, left: int
) -> None:
    budget = Budget(10, per="day", crashed=crashed)  # type: ignore[arg-type]
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(budget=budget, lease=30.0), budget)
        await eqc.take(NOON, 1, costs=[5])
        assert (await eqc.take(NOON + 29, 1, costs=[6]))[0].granted == 0
        assert [(await eqc.take(NOON + 30, 1, costs=[n]))[0].granted for n in (left + 1, left)] == [0, 1]


async def test_a_call_that_ends_after_its_ticket_ran_out_is_paid_for_once(database_url: str) -> None:
    for crashed in ("back", "spent"):
        budget = Budget(10, per="day", crashed=crashed)
        async with limiter_on(database_url) as limiter:
            eqc = Asker(limiter, rules(crashed, budget=budget, lease=30.0), budget)
            taken, tickets = await eqc.take(NOON, 1)
            await eqc.take(NOON + 40, 0)
            await eqc.finish(NOON + 50, "ok", tickets, span=taken.span, cost=1)
            assert [(await eqc.take(NOON + 60, 1, costs=[n]))[0].granted for n in (10, 9)] == [0, 1]


async def test_spans_around_another_time_than_the_database_s_are_said_to_be_astray(database_url: str) -> None:
    budget = Budget(10, per="hour")
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(budget=budget), budget)
        eqc.budget = None
        taken, _ = await eqc.take(NOON)
    assert taken.astray
    assert taken.now == NOON


async def test_a_parked_provider_is_parked_for_all(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(5, per=1.0)))
        assert await eqc.finish(NOON, "limited", seconds=30.0) == "parked"
        assert await eqc.finish(NOON, "limited", seconds=20.0) is None, "a shorter time does not bring it back"
        before, _ = await eqc.take(NOON + 29, 2)
        keyed, _ = await eqc.take(NOON + 29, 1, key="tenant")
        after, _ = await eqc.take(NOON + 30, 2)
    assert (before.granted, before.reason, before.line) == (0, RefusalReason.PARKED, NOON + 30)
    assert keyed.reason is RefusalReason.PARKED, "what is true of the whole limit is true of each key"
    assert after.granted == 2


async def test_a_refused_provider_is_off_until_told_otherwise(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(rate=Rate(5, per=1.0)))
        assert await eqc.finish(NOON, "refused") == "off"
        taken, _ = await eqc.take(NOON + 86400, 1)
    assert (taken.granted, taken.reason) == (0, RefusalReason.OFF)


async def test_the_breaker_opens_lets_one_call_through_and_closes(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(breaker=Breaker(failures=3, pause=5.0, longest=15.0), lease=60.0))
        told = [await eqc.finish(NOON, outcome) for outcome in ("down", "down", "ok", "down", "down", "down")]
        assert told == [None, None, None, None, None, "opened"], "in a row"
        closed_reason, _ = await eqc.take(NOON + 4, 3)
        first, _ = await eqc.take(NOON + 5, 3)
        second, _ = await eqc.take(NOON + 6, 3)
        assert (closed_reason.granted, closed_reason.reason, closed_reason.line) == (0, RefusalReason.OPEN, NOON + 5)
        assert (first.granted, first.probe, second.granted, second.probe) == (1, True, 0, False)

        assert await eqc.finish(NOON + 7, "down", probe=True) == "opened"
        assert (await eqc.take(NOON + 16, 1))[0].granted == 0, "the pause grows"
        assert (await eqc.take(NOON + 17, 1))[0].granted == 1
        assert await eqc.finish(NOON + 18, "ok") is None, "a call from before does not close it"
        assert await eqc.finish(NOON + 18, "ok", probe=True) == "closed"
        assert (await eqc.take(NOON + 18, 9))[0].granted == 9


async def test_a_call_that_was_let_through_by_a_process_that_died_keeps_nobody_waiting_for_ever(
    database_url: str,
) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(breaker=Breaker(failures=1, pause=5.0), lease=30.0))
        await eqc.finish(NOON, "down")
        assert [(await eqc.take(NOON + wait))[0].granted for wait in (6, 35, 37)] == [1, 0, 1]


@pytest.mark.parametrize("seed", range(3))
async def test_both_databases_answer_alike(pg_url: str, sqlite_url: str, seed: int) -> None:
    """One history of everything at once, on each."""
    chance, budget = random.Random(seed), Budget(300, per="hour", crashed=("back", "spent")[seed % 2])
    given = rules(
        rate=Rate(20, per=4.0),
        slots=6,
        budget=budget,
        lease=3.0,
        breaker=Breaker(failures=3, pause=2.0),
    )
    other = rules(rate=Rate(20, per=9.0), slots=6, budget=budget, lease=3.0, breaker=Breaker(failures=3, pause=2.0))
    async with limiter_on(pg_url) as one, limiter_on(sqlite_url) as two:
        now, held = NOON, []
        for _ in range(250):
            now += chance.choice([0.0, 0.01, 0.3, 0.3, 2.0]) - chance.choice([0.0, 0.0, 0.0, 0.2])
            now += 600.0 * (chance.random() < 0.02)
            using = chance.choice([given, given, given, other])
            askers = [Asker(limiter, using, budget) for limiter in (one, two)]
            if chance.random() < 0.6:
                costs = [chance.randint(0, 4) for _ in range(chance.randint(1, 6))]
                hold = chance.randint(0, 3)
                found = []
                for asker in askers:
                    taken, tickets = await asker.take(
                        now, len(costs), costs=costs, hold=hold, horizon=0.5, late=seed % 2
                    )
                    found.append((asdict(taken), tickets))
                assert found[0][0] == pytest.approx(found[1][0])
                held += [(taken["span"], taken["bucket"], taken["probe"], pair)
                         for taken in [found[0][0]] for pair in zip(found[0][1], found[1][1], strict=True)]  # fmt: skip
            elif held:
                span, bucket, probe, pair = held.pop(chance.randrange(len(held)))
                outcome: Outcome = chance.choice(["ok", "ok", "ok", "down", "down", "limited", "unknown", "unused"])
                cost = chance.randint(0, 5)
                told = [
                    await asker.finish(
                        now,
                        outcome,
                        [ticket],
                        span=span,
                        cost=cost,
                        probe=probe,
                        held=0.5,
                        seconds=1.0,
                        bucket=bucket,
                        unused=int(outcome == "unused"),
                    )
                    for asker, ticket in zip(askers, pair, strict=True)
                ]
                assert told[0] == told[1]


@pytest.mark.parametrize(
    "given",
    [
        {"rate": Rate(30, per=3600.0)},
        {"slots": 30},
        {"budget": Budget(30, per="month")},
    ],
    ids=["rate", "slots", "budget"],
)
async def test_many_who_ask_at_once_get_no_more_than_there_is(database_url: str, given: dict[str, Any]) -> None:
    """Each on a connection of its own, all at the same moment."""
    async with AsyncExitStack() as stack:
        askers = []
        for _ in range(6):
            limiter = await stack.enter_async_context(limiter_on(database_url))
            askers.append(Asker(limiter, rules(**given), given.get("budget")))

        async def pull(asker: Asker) -> int:
            return sum([(await asker.take(NOON, 1))[0].granted for _ in range(15)])

        assert sum(await asyncio.gather(*map(pull, askers))) == 30


async def test_who_is_cancelled_while_a_call_ends_keeps_no_other_from_ending(database_url: str) -> None:
    async with limiter_on(database_url) as limiter:
        eqc = Asker(limiter, rules(slots=1))
        _, tickets = await eqc.take(NOON)
        first = asyncio.create_task(eqc.finish(NOON + 1))
        await asyncio.sleep(0)  # it has begun, and gathers who else ends
        first.cancel()
        await asyncio.wait([first])
        async with asyncio.timeout(60):
            await eqc.finish(NOON + 1, "ok", tickets)
        taken, _ = await eqc.take(NOON + 2)
        assert taken.granted == 1
