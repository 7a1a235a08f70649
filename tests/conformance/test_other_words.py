"""Words of a table that the queue was told to leave alone: `States(others=...)`."""

from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Mill, States
from rowmill.doctor import audit
from rowmill.model.errors import DeclarationError
from rowmill.operator import change
from rowmill.operator.browse import list_rows
from rowmill.operator.counts import counts
from rowmill.operator.filters import Filter
from rowmill.operator.why import Obstacle, why
from tests.conformance.fleet import Declare, jobs, worker

WORDS = States(others=("archived", "draft"))


def declare(states: States = WORDS, *more: Any) -> Declare:
    return lambda mill: mill.queue(jobs(*more), states=states)


async def test_such_rows_are_left_alone_and_are_no_finding(database_url: str) -> None:
    async with worker(database_url, declare()) as member:
        await member.put({"state": "archived"}, {"state": "draft"}, {"state": "done"})
        assert await member.claim(5) == []
        assert (await change.requeue(member.store, member.queue, Filter())).rows == 1
        findings = await audit(member.store, [member.queue])
        assert "unknown_words" not in {finding.code for finding in findings}
        await member.put({"state": "strange"})
        [finding] = [one for one in await audit(member.store, [member.queue]) if one.code == "unknown_words"]
        assert "'strange' (1)" in finding.what
        assert "archived" not in finding.what


async def test_they_are_listed_and_counted_as_other(database_url: str) -> None:
    async with worker(database_url, declare()) as member:
        await member.put({"state": "archived"}, {"state": "draft"}, {"state": "strange"}, {"state": "done"})
        sql = member.store.sql(member.queue)
        found = await member.mill.run(lambda c: counts(c, sql))
        kinds = {state.word: state.kind for state in found if state.rows}
        assert kinds == {"archived": "other", "draft": "other", "strange": "unknown", "done": "done"}
        for typed, states in (("archived", ["archived"]), ("other", ["archived", "draft"]), ("unknown", ["strange"])):
            wanted = partial(list_rows, sql=sql, wanted=Filter(states=(typed,)), limit=10)
            rows = await member.mill.run(wanted)
            assert [row.state for row in rows] == states
        _, [hold] = await member.mill.run(lambda c: why(c, sql, "1"))
        assert (hold.reason, hold.facts) == (Obstacle.OTHER_WORD, {"state": "archived"})


async def test_numbers_will_do(database_url: str) -> None:
    words = States(ready=0, running=1, done=2, dead=3, others=9)
    async with worker(database_url, declare(words, Column("state", sa.Integer, nullable=False))) as member:
        await member.put({"state": 9})
        sql = member.store.sql(member.queue)
        found = await member.mill.run(lambda c: counts(c, sql))
        assert {state.word: state.kind for state in found if state.rows} == {"9": "other"}


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        (States(others="done"), "the word 'done' means both done and one of others"),
        (States(others=("ready", "old")), "the word 'ready' means both ready of stage work and one of others"),
        (States(others=7), "column state holds text, and the word 7 is none"),
    ],
)
def test_a_word_of_the_lifecycle_is_no_other(states: States, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Mill("sqlite:///never-opened.db").queue(jobs(), states=states)
    assert problem in str(caught.value)
