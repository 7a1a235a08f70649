"""The limit: the same claim, no-op and settle by hand on asyncpg, with nothing else. `raw_peer URL ROWS`."""

import asyncio
import sys

import asyncpg
import uvloop

from bench.peers.clock import Clock

TABLE = """
CREATE TABLE job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload json, state text NOT NULL DEFAULT 'queued',
    attempts int NOT NULL DEFAULT 0, available_at timestamptz NOT NULL DEFAULT now(), lease bigint,
    leased_until timestamptz, error text, finished_at timestamptz);
CREATE INDEX ON job (available_at, id) WHERE state = 'queued';
CREATE INDEX ON job (leased_until) WHERE state = 'processing'
"""
CLAIM = """
UPDATE job SET state = 'processing', attempts = attempts + 1, lease = $1, error = NULL,
    leased_until = now() + interval '1 minute'
WHERE id = ANY(ARRAY(SELECT id FROM job WHERE state = 'queued' AND available_at <= now()
    ORDER BY available_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, payload, attempts
"""
SETTLE = """
UPDATE job SET state = 'completed', lease = NULL, leased_until = NULL, finished_at = now()
FROM unnest($1::bigint[]) AS given(key) WHERE id = key AND lease = $2
"""
BATCH = 500


async def main(url: str, rows: int) -> None:
    clock = Clock(rows)
    claims, settles = await asyncpg.connect(url, server_settings={"jit": "off"}), await asyncpg.connect(url)
    await claims.execute(TABLE)
    await claims.execute("INSERT INTO job (payload) SELECT '{}' FROM generate_series(1, $1)", rows)
    await claims.execute("ANALYZE job")
    claim, settle = await claims.prepare(CLAIM), await settles.prepare(SETTLE)

    async def noop(record: asyncpg.Record) -> None:
        clock.tick()

    number = 1
    ahead = asyncio.create_task(claim.fetch(number, BATCH))
    settling = None
    while records := await ahead:
        token, number = number, number + 1
        ahead = asyncio.create_task(claim.fetch(number, BATCH))
        for record in records:
            await noop(record)
        if settling is not None:
            await settling
        settling = asyncio.create_task(settle.fetch(sorted(record["id"] for record in records), token))
    if settling is not None:
        await settling
    assert not await claims.fetchval("SELECT count(*) FROM job WHERE state <> 'completed'")
    clock.stop()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
