"""The limit: the same claim, no-op and settle by hand on asyncpg, with nothing else.

raw_peer [--wide] VERB URL [N]
"""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import asyncpg
import uvloop

from bench.peers.kit import Ticks, answer, keep_ahead, one_by_one, repeated, started, timed
from bench.tables import FILL_NARROW, FILL_WIDE, RESULT

TABLES = {
    "bench_narrow": "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload json",
    "bench_wide": """
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text NOT NULL, body text NOT NULL,
        source text NOT NULL, language varchar(8) NOT NULL DEFAULT 'en', author text, url text,
        published_at timestamptz DEFAULT now(), tenant int NOT NULL, words int, score float8, result jsonb,
        created_at timestamptz DEFAULT now()""",
}
QUEUE = """
    state text NOT NULL DEFAULT 'queued', attempts int NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL DEFAULT now(), lease bigint, leased_until timestamptz, error text,
    finished_at timestamptz"""
CLAIM = """
UPDATE {table} SET state = 'processing', attempts = attempts + 1, lease = $1, error = NULL,
    leased_until = now() + interval '1 minute'
WHERE id = ANY(ARRAY(SELECT id FROM {table} WHERE state = 'queued' AND available_at <= now()
    ORDER BY available_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING *
"""
SETTLE = """
UPDATE {table} SET state = 'completed', lease = NULL, leased_until = NULL, finished_at = now(){result}
FROM unnest($1::bigint[], $2::text[]) AS given(key, value) WHERE id = key AND lease = $3
"""
BATCH = 500


class Raw:
    def __init__(self, url: str, *, wide: bool) -> None:
        self.url = url
        self.wide = wide
        self.table = "bench_wide" if wide else "bench_narrow"

    async def setup(self) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(f"CREATE TABLE {self.table} ({TABLES[self.table]}, {QUEUE})")
        await connection.execute(f"CREATE INDEX ON {self.table} (available_at, id) WHERE state = 'queued'")
        await connection.execute(f"CREATE INDEX ON {self.table} (leased_until) WHERE state = 'processing'")
        if self.wide:
            await connection.execute(f"CREATE INDEX ON {self.table} (tenant, published_at)")
            await connection.execute(f"CREATE INDEX ON {self.table} (source)")

    async def load(self, rows: int) -> None:
        connection = await asyncpg.connect(self.url)
        fill = (FILL_WIDE if self.wide else FILL_NARROW).replace(":rows", str(rows))
        await connection.execute(fill)

    async def single(self, rows: int) -> None:
        """The plain INSERT that an enqueue is compared with."""
        connection = await asyncpg.connect(self.url)
        insert = await connection.prepare(f"INSERT INTO {self.table} (payload) VALUES ($1)")

        await repeated(rows, lambda: insert.fetch("{}"))

    async def bulk(self, number: int) -> None:
        """COPY by hand of the same rows, which a bulk load is compared with."""
        connection = await asyncpg.connect(self.url)
        rows: list[dict[str, Any]] = [{"payload": {}} for _ in range(number)]

        async def copy() -> None:
            records = [(json.dumps(row["payload"]),) for row in rows]
            await connection.copy_records_to_table(self.table, columns=["payload"], records=records)

        await timed(copy())

    async def feed(self, ahead: int) -> None:
        connection = await asyncpg.connect(self.url)
        insert = f"INSERT INTO {self.table} (payload) SELECT '{{}}' FROM generate_series(1, $1::int)"
        await keep_ahead(ahead, lambda rows: connection.execute(insert, rows))

    async def send(self, rows: int) -> None:
        connection = await asyncpg.connect(self.url)
        insert = (
            f"WITH new AS (INSERT INTO {self.table} (payload) VALUES ($1) RETURNING id) SELECT pg_notify('raw', '')"
        )
        await one_by_one(rows, lambda n: connection.execute(insert, json.dumps(n)))

    async def work(self) -> None:
        settings = {"jit": "off"}
        claims = await asyncpg.connect(self.url, server_settings=settings)
        settles = await asyncpg.connect(self.url, server_settings=settings)
        woken = asyncio.Event()
        listens = await asyncpg.connect(self.url)
        await listens.add_listener("raw", lambda *_: woken.set())
        claim = await claims.prepare(CLAIM.format(table=self.table))
        settle = await settles.prepare(
            SETTLE.format(table=self.table, result=", result = value::jsonb" if self.wide else "")
        )
        ticks = Ticks()
        result = json.dumps(RESULT) if self.wide else None

        async def handle(record: asyncpg.Record) -> str | None:
            ticks.tick()
            if not self.wide and record["payload"] != "{}":
                started(json.loads(record["payload"]))
            return result

        number = settles.get_server_pid() << 32
        settling: asyncio.Task[object] | None = None
        ahead = asyncio.create_task(claim.fetch(number, BATCH))
        while True:
            records = await ahead
            token, number = number, number + 1
            if not records:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), 1.0)
            woken.clear()
            ahead = asyncio.create_task(claim.fetch(number, BATCH))
            if not records:
                continue
            done = sorted([(record["id"], await handle(record)) for record in records])
            if settling is not None:
                await settling
            keys, values = [key for key, _ in done], [value for _, value in done]
            settling = asyncio.create_task(settle.fetch(keys, values, token))


async def main() -> None:
    wide = sys.argv[1] == "--wide"
    verb, url, *numbers = sys.argv[2:] if wide else sys.argv[1:]
    await getattr(Raw(url, wide=wide), verb)(*map(int, numbers))
    if verb in ("setup", "load"):
        answer(done=verb)


if __name__ == "__main__":
    uvloop.run(main())
