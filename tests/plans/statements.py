"""The statements that must stay fast on a big table, as the engine writes them, each with the index it is made for."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table, event
from sqlalchemy.dialects.postgresql import JSONB

from rowmill import Mill, Order, OrderPerKey, Queue, Retry
from rowmill.model.lifecycle import AGAIN, DIE, DONE, HOLD, RELEASE, ErrorChange, Move
from rowmill.operator import change, counts
from rowmill.operator.filters import Filter
from rowmill.store import order_per_key
from rowmill.store import rescue as rescuing
from rowmill.store.postgres import claim as claim_sql
from rowmill.store.postgres import sql as statement_sql
from rowmill.store.postgres.renew import renew_statement
from rowmill.store.postgres.settle import settle_statement
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.postgres.store import PostgresStore
from rowmill.store.watermark import Shape, Stretch

ROWS = 1_000_000
KEYS = 5003
BATCH = 100
TOKEN = 7 << 36
LEASE = 60.0
ROOMY = (float(1 << 30), True)
"""The bytes of a weighed claim: more than its rows take up."""

AT_ONCE, TIMED, WHOLE = Stretch.AT_ONCE, Stretch.TIMED, Stretch.WHOLE
NOWHERE: Shape = ()
ONWARD: Shape = ((AT_ONCE, True), (TIMED, True))

FILL = f"""
INSERT INTO %s (id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload)
SELECT n, nullif(mod(n, {KEYS}), 0), mod(n, 3), state, 1,
       CASE WHEN mod(n, 200) <> 100 THEN began END,
       CASE WHEN state = 'running' THEN {TOKEN} END,
       CASE WHEN state = 'running' THEN now() + (CASE WHEN mod(n, 2000) = 1 THEN -1 ELSE 1 END) * interval '1 hour' END,
       CASE WHEN state = 'dead' THEN 'code: why' END,
       CASE WHEN state IN ('done', 'dead') THEN began + interval '1 minute' END,
       repeat(md5(n::text), 4)
FROM (SELECT n, now() - ({ROWS} - n) * interval '1 second' AS began,
      CASE WHEN mod(n, 1000) = 1 THEN 'running' WHEN mod(n, 1000) = 3 THEN 'dead'
      WHEN mod(n, 2) = 0 THEN 'ready' ELSE 'done' END AS state FROM generate_series(1, {ROWS}) AS n) AS made
"""
"""Half of the rows ready, one in a thousand running, half of those past their lease, as many dead, the rest done."""

RUNNING = list(range(1, BATCH * 1000, 1000))
MARK = datetime.now(UTC) - timedelta(seconds=ROWS // 2)


@dataclass(frozen=True)
class Statement:
    queue: Queue[Any]
    name: str
    text: str
    """With $1, $2, … for its parameters."""
    arguments: tuple[Any, ...]
    indexes: frozenset[str]
    most: int
    """Pages that it may look at."""
    by_worker: bool = True
    """Run with the settings of a worker's connection, as opposed to the server's own."""
    rows: int = BATCH
    """Rows that it may sort, at the most."""
    needs_statistics: bool = False
    """An operator's, seldom sent: it is left to the planner, which has to know the table."""


def queue_of(name: str, **options: Any) -> Queue[Any]:
    moment = sa.DateTime(timezone=True)
    table = Table(
        name,
        MetaData(),
        Column("id", sa.BigInteger, primary_key=True),
        Column("account", sa.Integer),
        Column("rank", sa.SmallInteger, nullable=False),
        # An index of the user's own, as every hand-written queue has it.
        Column("state", sa.Text, nullable=False, index=True),
        Column("attempts", sa.Integer, nullable=False),
        Column("available_at", moment),
        Column("lease", sa.BigInteger),
        Column("leased_until", moment),
        Column("error", sa.Text),
        Column("finished_at", moment),
        Column("payload", sa.Text),
        Column("result", JSONB),
        prefixes=["UNLOGGED"],
    )
    mill = Mill("postgresql://nobody@localhost/nowhere")
    return mill.queue(table, retry=Retry(attempts=3), lease=LEASE, **options)


PLAIN = queue_of("plain")
RANKED = queue_of("ranked", order=Order(priority="rank"))
ORDERED = queue_of("ordered", order_per_key=OrderPerKey(per="account"))
QUEUES = (PLAIN, RANKED, ORDERED)


def key(queue: Queue[Any]) -> str:
    return f"{queue.name}_pkey"


def index(queue: Queue[Any], purpose: str) -> str:
    return f"rowmill_{queue.name}_{purpose}"


def ready(queue: Queue[Any]) -> str:
    return index(queue, f"{queue.steps[0].name}_ready")


def sql_of(queue: Queue[Any]) -> PostgresQueueSql:
    sql = queue.mill.store.sql(queue)
    assert isinstance(sql, PostgresQueueSql)
    return sql


def claim_statement(
    name: str, queue: Queue[Any], shape: Shape, *marks: Any, left_out: int = 0, weighed: bool = False
) -> Statement:
    text = claim_sql.claim_statement(sql_of(queue), queue.steps[0], shape, left_out, weighed=weighed)
    return Statement(
        queue,
        f"claim, {name}{', weighed' if weighed else ''}",
        text,
        (TOKEN + 1, BATCH, LEASE, *(ROOMY if weighed else ()), *marks),
        frozenset({ready(queue), key(queue)}),
        # A row is found, locked, and written to every index. The weighed claim is the second on the same rows: it meets
        # the versions that the one before it left when it was undone.
        most=BATCH * (60 if weighed else 35),
    )


def claims() -> list[Statement]:
    return [statement for weighed in (False, True) for statement in claims_of(weighed)]


def claims_of(weighed: bool) -> list[Statement]:
    claim = partial(claim_statement, weighed=weighed)
    return [
        claim("from the start", PLAIN, ((AT_ONCE, False), (TIMED, False))),
        claim("behind a time", PLAIN, ((AT_ONCE, False), (TIMED, True)), MARK, 5),
        claim("behind both", PLAIN, ONWARD, 100, MARK, 5),
        claim("of timed rows only", PLAIN, ((TIMED, False),)),
        claim("of timed rows only, behind a time", PLAIN, ((TIMED, True),), MARK, 5),
        claim(
            "of three priorities",
            RANKED,
            tuple((stretch, False) for _ in range(3) for stretch in (AT_ONCE, TIMED)),
            *(level for level in (2, 1, 0) for _ in range(2)),
        ),
        claim(
            "of three priorities, behind a time in each",
            RANKED,
            tuple((stretch, stretch is TIMED) for _ in range(3) for stretch in (AT_ONCE, TIMED)),
            *(part for level in (2, 1, 0) for part in (level, level, MARK, 5)),
        ),
        claim("of many priorities", RANKED, ((WHOLE, False),)),
        claim("around refused rows", PLAIN, ((AT_ONCE, False), (TIMED, True)), 2, 4, 6, MARK, 5, left_out=3),
    ]


def claims_in_order() -> list[Statement]:
    """Candidates are looked at, oldest first; or every key is asked for its head."""
    in_order = index(ORDERED, "in_order")
    indexes = {
        order_per_key.oldest_free: {ready(ORDERED), in_order, key(ORDERED)},
        order_per_key.free_heads: {ready(ORDERED), in_order, key(ORDERED)},
        order_per_key.without_key: {ready(ORDERED), in_order, key(ORDERED)},
    }
    depth = order_per_key.LEAST_DEPTH + order_per_key.DEPTH_PER_ROW * BATCH
    looks = {order_per_key.oldest_free: depth * 5, order_per_key.free_heads: BATCH * 40, order_per_key.without_key: 0}
    sorted_rows = {
        order_per_key.oldest_free: depth * 2,
        order_per_key.free_heads: BATCH,
        order_per_key.without_key: BATCH,
    }
    assert indexes.keys() == set(order_per_key.finders(sql_of(ORDERED)))
    step = ORDERED.steps[0]
    return (
        [
            Statement(
                ORDERED,
                f"claim in order, {find.__name__}{name}{', weighed' if weighed else ''}",
                claim_sql.claim_in_order(sql_of(ORDERED), step, find, shape, behind=bool(behind), weighed=weighed),
                (
                    TOKEN + 1,
                    BATCH,
                    LEASE,
                    *(ROOMY if weighed else ()),
                    *((100, MARK, 5) if shape == ONWARD else ()),
                    *behind,
                ),
                frozenset(indexes[find]),
                most=BATCH * 35 + looks[find],
                rows=sorted_rows[find],
            )
            for find, name, shape, behind in [
                *((find, name, shape, ()) for find in indexes for name, shape in (("", NOWHERE), (", onward", ONWARD))),
                (order_per_key.free_heads, ", behind a key", ONWARD, (17,)),
            ]
            for weighed in (False, True)
        ]
        + [
            Statement(
                ORDERED,
                "keys of which two rows run",
                claim_sql.run_together(sql_of(ORDERED), ORDERED.by_name["account"]),
                (list(range(BATCH)),),
                frozenset({in_order}),
                most=BATCH * 10,
            )
        ]
        + [
            Statement(
                ORDERED, name, of(sql_of(ORDERED), step, ONWARD), (100, MARK, 5), frozenset({ready(ORDERED)}), most=10
            )
            for name, of in (("passed over", claim_sql.passed_over), ("oldest, onward", claim_sql.oldest))
        ]
    )


def settle(name: str, move: Move, *values: list[Any], most: int = 35) -> Statement:
    arrays: list[Any] = [[TOKEN] * BATCH]
    if move.delayed:
        arrays.append([30.0] * BATCH)
    if move.failed:
        why = ["why"] * BATCH
        arrays += [[1] * BATCH, why, why, why, [MARK] * BATCH, why, why]
    elif move.error is ErrorChange.SET:
        arrays += [["why"] * BATCH, ["why"] * BATCH]
    text = settle_statement(sql_of(PLAIN), PLAIN.steps[0], move, ("result",) if values else ())
    arguments = (7, 1, 0.5, BATCH, *arrays, RUNNING, *values)
    return Statement(PLAIN, f"settle, {name}", text, arguments, frozenset({key(PLAIN)}), most=BATCH * most)


def fenced() -> list[Statement]:
    """What a worker does to rows that it holds, or knows by their keys."""
    sql, keys = sql_of(PLAIN), frozenset({key(PLAIN)})
    held = ([TOKEN] * BATCH, RUNNING)
    return [
        settle("done, with values", DONE, ['{"score": 1}'] * BATCH),
        settle("again", AGAIN),
        settle("dead", DIE),
        settle("release", RELEASE),
        # The fifth on the same rows: it meets the versions that those before it left when they were undone.
        settle("hold", HOLD, most=50),
        Statement(
            PLAIN,
            "claim these",
            claim_sql.claim_these(sql, PLAIN.steps[0]),
            (TOKEN + 1, BATCH, LEASE, list(range(2, BATCH * 2 + 2, 2))),
            keys,
            most=BATCH * 45,
        ),
        Statement(
            ORDERED,
            "claim these, in order",
            claim_sql.claim_these(sql_of(ORDERED), ORDERED.steps[0]),
            (TOKEN + 1, BATCH, LEASE, list(range(2, BATCH * 2 + 2, 2))),
            frozenset({key(ORDERED), index(ORDERED, "in_order")}),
            most=BATCH * 55,
        ),
        Statement(PLAIN, "renew", renew_statement(sql), (LEASE, *held), keys, most=BATCH * 45),
        Statement(PLAIN, "holds", statement_sql.holds_statement(sql), held, keys, most=BATCH * 8),
        Statement(
            PLAIN,
            "value",
            statement_sql.value_statement(sql, PLAIN.by_name["payload"]),
            ([TOKEN], RUNNING[:1]),
            keys,
            most=8,
        ),
        Statement(
            ORDERED,
            "disclaim",
            claim_sql.release_claim_statement(sql_of(ORDERED), ORDERED.steps[0]),
            (TOKEN + 1,),
            frozenset({index(ORDERED, "running"), key(ORDERED)}),
            # All that runs is looked at.
            most=ROWS // 1000 * 2,
        ),
        Statement(
            RANKED,
            "priorities",
            order_per_key.priorities(sql_of(RANKED), RANKED.steps[0]),
            (),
            frozenset({ready(RANKED)}),
            most=60,
        ),
    ]


Recorded = tuple[str, tuple[Any, ...], bool]
"""A statement, its parameters, and whether it was to be planned by indexes alone."""


class Recorder:
    """Notes what SQLAlchemy sends, while it is attached."""

    def __init__(self) -> None:
        self.found: list[Recorded] = []
        self._index_plans = False

    def __call__(self, connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "set_config('enable_seqscan'" in statement:
            self._index_plans = "set_config('enable_seqscan', 'off'" in statement
        elif PLAIN.name in statement:
            self.found.append((statement, tuple(parameters), self._index_plans))


async def recorded(mill: Mill, work: Callable[[Mill], Any]) -> list[Recorded]:
    recorder = Recorder()
    assert isinstance(mill.store, PostgresStore)
    engine = mill.store.upkeep
    event.listen(engine, "before_cursor_execute", recorder)
    try:
        await work(mill)
    finally:
        event.remove(engine, "before_cursor_execute", recorder)
    return recorder.found


async def upkeep_statements(mill: Mill) -> list[Statement]:
    """What the leader and operators send, taken down while they do it. `mill` is on an empty table."""
    sql, step = mill.store.sql(PLAIN), PLAIN.steps[0]
    running, finished = frozenset({index(PLAIN, "running")}), frozenset({index(PLAIN, "finished")})
    depth = await recorded(mill, lambda m: m.run(lambda c: counts.depth(c, sql, 1000)))
    work = await recorded(mill, lambda m: m.run(lambda c: counts.has_work(c, sql)))
    rescue = await recorded(mill, lambda m: m.run(lambda c: rescuing.rescue(c, sql, step, 500)))
    prune = await recorded(
        mill, lambda m: change.prune(m.store, PLAIN, Filter(), timedelta(seconds=ROWS - 5000), batch=500)
    )
    assert (len(depth), len(work), len(rescue), len(prune)) == (1, 1, 2, 2)

    def made(name: str, about: Recorded, indexes: frozenset[str], most: int) -> Statement:
        text, arguments, index_plans = about
        return Statement(PLAIN, name, text, arguments, indexes, most, index_plans, 5000, not index_plans)

    return [
        made("depth against a threshold", depth[0], frozenset({ready(PLAIN)}), 300),
        made("whether there is work", work[0], running | {ready(PLAIN)}, 300),
        made("rescue, rows without a lease", rescue[0], running, 100),
        made("rescue, expired leases", rescue[1], running, 2000),
        made("prune", prune[0], finished, 2000),
    ]
