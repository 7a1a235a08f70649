"""Several workers do everything that can be done to rows, in any order; the table must agree with the model."""

import os
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Connection

from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.lifecycle import MOVES
from rowmill.operator import change as operate
from rowmill.operator.filters import Filter
from rowmill.store import rescue as rescuing
from rowmill.store import watermark
from rowmill.store.port import Disconnected, Store
from rowmill.store.postgres import store as postgres
from rowmill.store.postgres.connection import ConnectionPool
from rowmill.store.postgres.store import PostgresStore
from tests.stateful.arena import LONG, SHAPES, WORKERS, Arena, Shape
from tests.stateful.model import FINAL, Row

EXAMPLES = os.environ.get("ROWMILL_EXAMPLES")
"""A number: so many random runs instead of the few that are the same every time."""
SETTINGS = settings(
    max_examples=int(EXAMPLES or 50),
    stateful_step_count=40,
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    # A failure of the runs that are always the same is shown as it was found: to make it small takes minutes.
    phases=[Phase.generate] if EXAMPLES is None else [Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
TIMES = (
    (watermark, "LIFETIME"),
    (watermark, "OLDEST_EVERY"),
    (watermark, "CHEAP"),
    (postgres, "LATE_SECONDS"),
)
MANY = 12
WAITS = st.sampled_from([0.0, LONG])
workers = st.integers(0, WORKERS - 1)
stages = st.integers(0, 1)
few = st.integers(1, 3)
seldom = st.sampled_from([False, False, True])
priorities = st.sampled_from([None, 0, 1, 5])
pers = st.sampled_from(["a", "b", None])
some_keys = st.sets(st.integers(0, 7), min_size=1, max_size=4)
picks = st.integers(0, 99)
"""One of the leases that were given so far."""


class LifecycleMachine(RuleBasedStateMachine):
    """Which of several rows a claim gets is the store's choice. So nothing that is drawn depends on what it answered:
    leases are picked by number, and a step that has nothing to do does nothing."""

    def __init__(self, arena: Arena) -> None:
        super().__init__()
        self.arena = arena
        self.queue = arena.queue
        self.model = arena.shape.model()
        self.last_key = 0
        self.clock = 0
        self.leases: list[Lease[Any]] = []
        self.given: set[tuple[int, int]] = set()
        self.seen: dict[int, Any] = {}
        self.unanswered: dict[tuple[int, int, int], list[int]] = {}

    @initialize(per=pers)
    def begin(self, per: str | None) -> None:
        """There is always something to work on, and somebody who does."""
        self.arena.clear()
        self.insert(3, "now", per, None)
        self.seen = self.arena.rows()
        self.claim_by(self.arena.stores[0], 0, 1, ordered=True)

    def lease(self, pick: int) -> Lease[Any]:
        return self.leases[pick % len(self.leases)]

    def stage(self, number: int) -> int:
        return number % len(self.model.stages)

    @rule(
        count=few,
        when=st.sampled_from(["now", "at once", "long ago", "later"]),
        per=pers,
        priority=priorities,
    )
    def insert(self, count: int, when: str, per: str | None, priority: int | None) -> None:
        if len(self.model.rows) >= MANY:
            return
        rows: list[dict[str, Any]] = []
        for _ in range(count):
            self.last_key += 1
            rows.append({"id": self.last_key, "per": per, "rank": priority})
            if when == "at once":
                rows[-1]["available_at"] = None
            word = self.model.stages[0].ready
            self.model.rows[self.last_key] = Row(self.last_key, per, priority, word, due=when != "later")
        self.arena.insert(rows, shift={"later": LONG, "long ago": -LONG}.get(when, 0.0))

    @rule(worker=workers, stage=stages, limit=few, fresh=seldom, looks=st.booleans())
    def claim(self, worker: int, stage: int, limit: int, fresh: bool, looks: bool) -> None:
        """Never too few: what a claim that goes on from a watermark does not find, it looks for from the start."""
        store = self.arena.stores[worker]
        given_back = self.give_back_unanswered(worker)
        if fresh:
            store.forget(self.queue)
        self.claim_by(store, self.stage(stage), limit, ordered=fresh and not given_back, looks=looks)

    @rule(worker=workers, per=pers, priority=priorities)
    def rows_come_to_lie_behind_the_last_claim(self, worker: int, per: str | None, priority: int | None) -> None:
        """The next claim finds them all the same."""
        store = self.arena.stores[worker]
        self.give_back_unanswered(worker)
        self.claim_by(store, 0, 1)
        self.insert(1, "long ago", per, priority)
        self.seen = self.arena.rows()
        self.claim_by(store, 0, MANY, looks=False)

    def claim_by(self, store: Store, stage: int, limit: int, *, ordered: bool = False, looks: bool = True) -> None:
        """`looks`: it is time to see where the oldest row stands."""
        self.arena.time_to_look(looks)
        free = self.in_sequence(stage)
        leases = self.arena.run(store.claim(self.queue, self.queue.steps[stage], limit))
        if (
            0 < len(leases) < limit
        ):  # rows behind the last claim are found by the next one, which a worker makes at once
            leases += self.arena.run(store.claim(self.queue, self.queue.steps[stage], limit - len(leases)))
        keys = [lease.key for lease in leases]
        buried = self.buried(stage)
        freed = self.in_sequence(stage) if buried else []  # by a dead head that is skipped
        assert set(keys) <= {*free, *freed}, "claimed what was not free"
        assert not any(self.model.used_up(key) for key in keys), "claimed what has no attempts left"
        assert len(set(keys)) == len(keys) <= limit, "claimed too many"
        assert len(keys) + len(buried) >= min(limit, len(free)), "left rows behind"
        assert keys or all(key in buried for key in free), "left rows behind"
        taken = [key for key in free if key not in buried][: len(keys)]
        assert self.model.in_order or not ordered or keys == taken, "not the queue's order"
        for lease in leases:
            assert lease.attempt == self.model.claim(lease.key, stage, lease.token)
            assert (lease.token, lease.key) not in self.given, "two claims of a row share a token"
            self.given.add((lease.token, lease.key))
            self.leases.append(lease)

    def buried(self, stage: int) -> list[int]:
        """The rows that a claim buried, because their attempts were used up. The model knows of them from now on."""
        found = self.arena.rows()
        waiting = (self.model.stages[stage].ready, self.model.stages[stage].waiting)
        keys = [key for key, row in self.model.rows.items() if row.word in waiting and found[key].state == "dead"]
        for key in keys:
            assert self.model.used_up(key), "buried a row that has attempts left"
            self.model.exhaust(key, stage)
        return keys

    @rule(worker=workers, pick=picks)
    def somebody_puts_a_dead_row_back_by_hand(self, worker: int, pick: int) -> None:
        """And leaves its attempts as they are."""
        dead = [row for row in self.model.rows.values() if row.word == "dead"]
        if not dead:
            return
        row = dead[pick % len(dead)]
        row.word, row.due = self.model.stages[row.failed_at].ready, True
        table = self.queue.table
        put_back = sa.update(table).where(table.c.id == row.key)
        self.arena.connection.execute(put_back.values(state=row.word, available_at=None, finished_at=None))
        self.arena.stores[worker].forget(self.queue)

    def in_sequence(self, stage: int) -> list[int]:
        """The keys that may be claimed, in the order in which they should be."""
        found, ranked = self.seen, self.arena.shape.ranked

        def place(key: int) -> tuple[int, bool, Any, int]:
            at = found[key].available_at
            return (-(found[key].rank or 0) if ranked else 0, at is not None, at, key)

        return sorted((row.key for row in self.model.claimable(stage)), key=place)

    @precondition(lambda self: self.arena.postgres)
    @rule(worker=workers, stage=stages, limit=few)
    def claim_whose_answer_is_lost(self, worker: int, stage: int, limit: int) -> None:
        """Its rows go back with the next claim of the same worker, without an attempt spent."""
        stage, store = self.stage(stage), self.arena.stores[worker]
        self.give_back_unanswered(worker)
        assert isinstance(store, PostgresStore)
        with AnswersLost(store.claims, "WITH rowmill_picked") as lost, suppress(Disconnected):
            self.arena.run(store.claim(self.queue, self.queue.steps[stage], limit))
        assert len(lost.records) <= limit
        self.buried(stage)
        for record in lost.records:
            if record["lease"] is None:
                continue
            self.model.claim(record["id"], stage, record["lease"])
            self.unanswered.setdefault((worker, stage, record["lease"]), []).append(record["id"])
        store.forget(self.queue)

    def give_back_unanswered(self, worker: int) -> bool:
        """What the next claim of this worker does first; rows whose lease ran out are left to the rescue.
        Answers whether there are any, which makes their place in the order unknown."""
        given = False
        for about, keys in list(self.unanswered.items()):
            by, stage, token = about
            rows = [self.model.rows[key] for key in keys if self.model.holds(token, key)]
            live = [row for row in rows if by == worker and row.expired is None]
            for row in live:
                self.model.settle(row.key, stage, "release", 0.0, None)
            if live:
                del self.unanswered[about]
                given = True
        return given

    @rule(
        verdicts=st.lists(
            st.tuples(picks, st.sampled_from(sorted(MOVES)), WAITS, st.sampled_from([None, "paid for"])),
            min_size=1,
            max_size=3,
        ),
        answer_lost=st.booleans(),
    )
    def settle(self, verdicts: list[tuple[int, str, float, str | None]], answer_lost: bool) -> None:
        """Whoever holds the row writes its outcome; the others write nothing at all."""
        by_store: dict[int, list[Verdict]] = {}
        held = set()
        once = {self.lease(pick): (name, wait, result) for pick, name, wait, result in verdicts}
        for lease, (name, wait, result) in once.items():
            move = self.move(lease, name)
            values = {} if result is None or name == "release" else {"result": result}
            verdict = Verdict(lease, MOVES[move], wait if MOVES[move].delayed else 0.0, "code", "why", values)
            by_store.setdefault(lease.token >> 36, []).append(verdict)
            if self.model.holds(lease.token, lease.key):
                held.add(lease)
                stage = self.queue.steps.index(lease.step)
                self.model.settle(lease.key, stage, move, verdict.wait, values.get("result"))
        for store in self.arena.stores:
            mine = by_store.get(store.worker, [])
            if mine:
                self.settle_by(store, mine, held, answer_lost)

    def settle_by(self, store: Store, verdicts: list[Verdict], held: set[Lease[Any]], answer_lost: bool) -> None:
        all_held = all(verdict.lease in held for verdict in verdicts)
        if answer_lost and all_held and isinstance(store, PostgresStore):
            with AnswersLost(store.settles, "WITH settled"):
                settled = self.arena.run(store.settle(verdicts))
        else:
            settled = self.arena.run(store.settle(verdicts))
        assert {verdict.lease for verdict in settled.lost} == {v.lease for v in verdicts if v.lease not in held}
        assert settled.kept == sum(verdict.lease in held for verdict in verdicts)
        assert settled.refused == []

    def move(self, lease: Lease[Any], name: str) -> str:
        """The drawn move, or one like it that a worker can make at this stage."""
        last = lease.step.following is None
        return {
            "claim": "again",
            "rescue": "release",
            "bury": "dead",
            "exhaust": "dead",
            "cancel": "abandon",
            "requeue": "release",
            "advance": "done" if last else "advance",
        }.get(name, name)

    @rule(some=st.sets(picks, min_size=1, max_size=3), worker=workers)
    def renew(self, some: set[int], worker: int) -> None:
        several = list({self.lease(pick) for pick in some})
        held = [lease for lease in several if self.model.holds(lease.token, lease.key)]
        renewed = self.arena.run(self.arena.stores[worker].renew(several))
        assert set(renewed.lost) == set(several) - set(held)
        for lease in held:
            self.model.rows[lease.key].expired = None

    @rule(pick=picks)
    def lease_runs_out(self, pick: int) -> None:
        lease = self.lease(pick)
        row = self.model.rows.get(lease.key)
        if row is not None and row.token is not None and row.expired is None:
            self.clock += 1
            row.expired = self.clock
            # Later ones end later: the sweep takes the oldest first.
            self.arena.shift("leased_until", [lease.key], -10 * LONG + self.clock * 60)

    @rule()
    def waits_end(self) -> None:
        keys = [row.key for row in self.model.rows.values() if not row.due and row.word not in FINAL]
        for key in keys:
            self.model.rows[key].due = True
        self.arena.shift("available_at", keys, -2 * LONG)

    @rule(pick=picks, worker=workers)
    def worker_dies(self, pick: int, worker: int) -> None:
        """Its lease runs out, and a sweep finds that."""
        self.lease_runs_out(pick)
        self.rescue(worker, self.queue.steps.index(self.lease(pick).step), MANY)

    @rule(worker=workers, stage=stages, most=few)
    def rescue(self, worker: int, stage: int, most: int) -> None:
        stage = self.stage(stage)
        self.check_rescue(worker, stage, most, self.model.expired(stage)[:most])

    @rule(pick=picks, worker=workers, settled=st.booleans())
    def rescue_of_a_row_that_moved_since_it_was_looked_at(self, pick: int, worker: int, settled: bool) -> None:
        """It is renewed, or settled, between the look of a sweep and its write."""
        self.lease_runs_out(pick)
        lease = self.lease(pick)
        moved, stage = self.model.rows.get(lease.key), self.queue.steps.index(lease.step)
        due = self.model.expired(stage)
        if moved is None or moved not in due:
            return
        others = [row for row in due if row is not moved]
        until = self.arena.mill.store.sql(self.queue).later("leased_until", repr(LONG))
        change = f"state = 'done', lease = NULL, leased_until = NULL, finished_at = {until}" if settled else ""
        statement = f"UPDATE {self.queue.table.name} SET {change or f'leased_until = {until}'} WHERE id = {moved.key}"

        moved.expired = None
        if settled:
            moved.word, moved.token = "done", None
        self.check_rescue(worker, stage, len(others) + 1, others, meanwhile=statement)

    def check_rescue(
        self, worker: int, stage: int, most: int, expected: list[Row], meanwhile: str | None = None
    ) -> None:
        store, step = self.arena.stores[worker], self.queue.steps[stage]
        words = [self.model.rescue(row, stage) for row in expected]
        sql = store.sql(self.queue)

        def sweep(connection: Connection) -> rescuing.Rescued:
            between: Any = connection if meanwhile is None else BeforeUpdate(connection, meanwhile)
            return rescuing.rescue(between, sql, step, most)

        buried = words.count("dead")
        assert self.arena.run(store.run(sweep)) == rescuing.Rescued(len(words) - buried, buried)

    @rule(worker=workers, keys=some_keys, batch=few)
    def cancel(self, worker: int, keys: set[int], batch: int) -> None:
        expected = [row for row in self.chosen(keys) if self.model.cancel(row)]
        store = self.arena.stores[worker]
        done = self.arena.run(operate.cancel(store, self.queue, self.filter(keys), batch=batch))
        assert done == operate.ChangeResult(len(expected))

    @rule(worker=workers, keys=some_keys, batch=few, most=st.sampled_from([None, 1, 2]))
    def requeue(self, worker: int, keys: set[int], batch: int, most: int | None) -> None:
        expected = 0
        for row in self.chosen(keys):
            if most is None or expected < most:
                expected += self.model.requeue(row)
        store = self.arena.stores[worker]
        done = self.arena.run(operate.requeue(store, self.queue, self.filter(keys), most=most, batch=batch))
        assert done == operate.ChangeResult(expected)

    @rule(worker=workers, keys=some_keys, batch=few)
    def prune(self, worker: int, keys: set[int], batch: int) -> None:
        """Finished rows go once they are old, and no others."""
        old = [row.key for row in self.chosen(keys) if row.word in FINAL]
        self.arena.shift("finished_at", old, -2 * LONG)
        for key in old:
            del self.model.rows[key]
        age = timedelta(seconds=LONG)
        done = self.arena.run(operate.prune(self.arena.stores[worker], self.queue, Filter(), age, batch=batch))
        assert done == operate.ChangeResult(len(old))

    def chosen(self, keys: set[int]) -> list[Row]:
        """The rows that there are of the drawn ones, which count from the newest."""
        wanted = {self.last_key - key for key in keys}
        return [row for key, row in sorted(self.model.rows.items()) if key in wanted]

    def filter(self, keys: set[int]) -> Filter:
        return Filter(keys=tuple(str(self.last_key - key) for key in keys))

    @invariant()
    def the_table_agrees_with_the_model(self) -> None:
        found = self.seen = self.arena.rows()
        assert found.keys() == self.model.rows.keys()
        for key, row in self.model.rows.items():
            there = found[key]
            assert (there.state, there.attempts, there.lease) == (row.word, row.attempts, row.token)
            assert (there.result, there.failures) == (row.result, row.failures)
            running = row.word in (words.running for words in self.model.stages)
            assert (there.lease is not None) == (there.leased_until is not None) == running
            assert (there.finished_at is not None) == (row.word in FINAL)
            assert row.word in FINAL or running or there.due == row.due


class BeforeUpdate:
    """A connection on which something else happens before the first UPDATE."""

    def __init__(self, connection: Connection, statement: str) -> None:
        self._connection = connection
        self._statement: str | None = statement

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, clause: Any, *arguments: Any) -> Any:
        if self._statement is not None and clause.is_update:
            self._connection.exec_driver_sql(self._statement)
            self._statement = None
        return self._connection.execute(clause, *arguments)


class AnswersLost:
    """The next statement that begins so is carried out, and then the connection breaks."""

    def __init__(self, line: ConnectionPool, opening: str) -> None:
        self._line = line
        self._opening = opening
        self._fetch = line.fetch
        self.records: list[Any] = []

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        found = await self._fetch(statement, *arguments)
        if not statement.startswith(self._opening):
            return found
        self.records = found
        self._line.fetch = self._fetch  # type: ignore[method-assign]
        raise Disconnected("the answer was lost")

    def __enter__(self) -> "AnswersLost":
        self._line.fetch = self.fetch  # type: ignore[method-assign]
        return self

    def __exit__(self, *_about: object) -> None:
        self._line.fetch = self._fetch  # type: ignore[method-assign]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_workers_and_operators_keep_to_the_lifecycle(
    database_url: str, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is found must not depend on how fast this runs.
    for module, name in TIMES:
        monkeypatch.setattr(module, name, float("inf"))
    with Arena(database_url, shape) as arena:
        run_state_machine_as_test(partial(LifecycleMachine, arena), settings=SETTINGS)  # type: ignore[arg-type]
