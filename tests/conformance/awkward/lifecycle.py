"""The whole life of a few rows, whatever their table looks like."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from rowmill import Dead, RetryLater
from rowmill.model.lifecycle import StateKind
from rowmill.model.states import as_value
from rowmill.store.rescue import Rescued
from tests.conformance.fleet import Member


def kinds(member: Member, rows: list[Any]) -> list[StateKind | None]:
    """What the states of rows mean."""
    state, vocabulary = member.queue.columns["state"], member.queue.vocabulary
    meant = {as_value(word, state.type): vocabulary.kind(word) for word, _ in vocabulary.meanings()}
    return [meant[row._mapping[state.key]] for row in rows]


async def live(member: Member, rows: list[Mapping[str, Any]]) -> None:
    """Four rows: one is done, one fails and is done, one dies, one crashes, is renewed, released and buried.

    Every statement of the engine is used once: insert, load, claim, renew, release, settle in each way, rescue.
    """
    assert len(rows) == 4
    await member.put(*rows[:2])
    await member.queue.load(rows[2:])
    leases = await member.claim(3)
    leases += await member.claim(3)
    assert len({lease.key for lease in leases}) == 4
    assert {lease.attempt for lease in leases} == {1}
    done, again, dead, crash = leases
    assert (await member.store.renew(leases)).lost == []
    assert (
        await member.settle((done, None), (again, RetryLater(500, "busy")), (dead, Dead("bad", "no use")))
    ).kept == 3
    assert (await member.release(crash)).kept == 1
    assert (await member.settle((done, None), (crash, None))).kept == 0
    [crash] = await member.claim(10)
    assert crash.attempt == 1
    assert await member.rescue() == Rescued(0, 0)
    await member.bench.advance(501)
    assert await member.rescue() == Rescued(returned=1)
    second = {lease.key: lease for lease in await member.claim(10)}
    assert set(second) == {again.key, crash.key}
    assert {lease.attempt for lease in second.values()} == {2}
    assert (await member.settle((second[again.key], None))).kept == 1
    await member.expire()
    assert await member.rescue() == Rescued(returned=1)
    await member.claim(10)
    await member.expire()
    assert await member.rescue() == Rescued(buried=1)
    assert await member.claim(10) == []
    error = member.queue.columns["error"]
    found = await member.read(sa.select(member.queue.table))
    by_kind = sorted(
        (str(kind), row._mapping[error.key]) for kind, row in zip(kinds(member, found), found, strict=True)
    )
    assert by_kind == [
        ("dead", "bad: no use"),
        ("dead", "lease_expired_max_attempts"),
        ("done", None),
        ("done", None),
    ]
