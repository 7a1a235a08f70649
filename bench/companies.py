"""Names through the ladder beside a pandas merge, and the limits of the queue of companies.

    python -m bench.companies [--names 1000000] [--rows 10000000] [--only ladder,limits,names]

ladder: distinct names, 95 % of which have a mapping, in a frame. `merge` normalises the names, reads the mappings from
the database and joins them with pandas; `ladder` is `resolve_frame`, which normalises them too, and enqueues those
that nobody knows. Each runs in a process of its own, which did nothing before. `..._lookup` is the same with names
whose normal form was made before, so that the lookup remains.
limits: depth of the queue and a claim of 100 with millions of requests in the table.
names: normalisations a second, beside those of cleanco where it is installed.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import psutil
import sqlalchemy as sa
from pydantic import SecretStr

import rowmill as rm
from bench.reconcile import Peak
from bench.server import bench_server
from rowmill.operator.counts import depth
from rowmill.store.own import fleet
from rowmill_systems.companies import resolver as ladder
from rowmill_systems.companies.frames import resolve_frame
from rowmill_systems.companies.models import SCHEMA, tables_of
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import normalize_for_temp_id

T = TypeVar("T")
SEED = 11
KNOWN = 0.95
GOAL = 0.3
CLAIM = 100
DEPTH_MS, CLAIM_MS = 100, 500
SALT = "bench"
WORDS = ("Nord", "Süd", "Alpha", "Delta", "华东", "Grand", "Pacific", "Iron", "Silver", "Orient", "Baltic", "Union")
TRADES = ("Trading", "Logistik", "Maschinenbau", "科技", "Energy", "Foods", "Textile", "Capital", "Pharma", "Bau")
FORMS = ("Ltd", "GmbH", "有限公司", "S.A.", "Inc.", "AG", "B.V.", "Co., Ltd.", "株式会社", "SARL")
FILL = """
INSERT INTO {requests} (raw_name, normalized_name, status, next_retry_at, finished_at)
SELECT 'Name ' || g, 'name ' || g, CASE WHEN g % 2 = 0 THEN 'pending' ELSE 'done' END,
       CASE WHEN g % 2 = 0 THEN now() - (:rows - g) * interval '1 millisecond' END, CASE WHEN g % 2 = 1 THEN now() END
FROM generate_series(1, :rows) AS g
"""
Limit = Callable[[str], dict[str, Any]]
LIMITS: list[Limit] = []
"""Further limits to measure on the filled table, by its URL. Each returns a measure, its goal and what was reached."""


def company_names(number: int) -> list[str]:
    """Return distinct names as people write them, in no order."""
    draw = random.Random(SEED)
    names = [
        f"{draw.choice(WORDS)} {draw.choice(WORDS)} {place:x} {draw.choice(TRADES)} {draw.choice(FORMS)}"
        for place in range(number)
    ]
    draw.shuffle(names)
    return names


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), hide_parameters=True)


def create_tables(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    tables_of(connection.dialect.name).metadata.create_all(connection)


def prepare(url: str, number: int) -> None:
    """Map 95 % of the names."""
    engine = engine_of(url)
    with engine.begin() as connection:
        create_tables(connection)
        table = tables_of(connection.dialect.name).mappings
        names = company_names(number)
        rows: list[dict[str, str]] = []
        for place, name in enumerate(sorted(names)[: int(number * KNOWN)]):
            alias = normalize_for_temp_id(name)
            rows.append({"match_type": "company_name", "alias": alias, "company_id": f"C{place:09}"})
        for start in range(0, len(rows), 20_000):
            connection.execute(sa.insert(table), rows[start : start + 20_000])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE" if connection.dialect.name == "postgresql" else "ANALYZE")


def merge(connection: sa.Connection, frame: Any) -> int:
    """What a pipeline does without the ladder: normalise, read the mappings, join."""
    pandas: Any = import_module("pandas")
    table = tables_of(connection.dialect.name).mappings
    wanted = sa.select(table.c.alias, table.c.company_id).where(table.c.match_type == "company_name")
    known = pandas.read_sql(wanted, connection)
    frame["alias"] = [ladder._normal_form(name) for name in frame["name"]]
    return int(frame.merge(known, on="alias", how="left")["company_id"].notna().sum())


def merge_only(connection: sa.Connection, frame: Any, known: Any) -> int:
    return int(frame.merge(known, on="alias", how="left")["company_id"].notna().sum())


def through_ladder(connection: sa.Connection, frame: Any) -> int:
    settings = CompaniesSettings(temp_id_salt=SecretStr(SALT))
    resolver = ladder.CompanyIdResolver(connection, settings)
    found = resolve_frame(frame, column="name", resolver=resolver)
    known = int((found["company_id_rung"] == "company_name").sum())
    if len(found) != known + resolver.counts.rungs["queue"] or resolver.counts.failures:
        raise SystemExit(f"answered otherwise than it should: {resolver.counts}")
    return known


def measure_part(part: str, url: str, number: int) -> dict[str, Any]:
    """Measure one way, in this process."""
    pandas: Any = import_module("pandas")
    names = company_names(number)
    with engine_of(url).connect() as connection:
        backend = _backend(connection)
        frame = pandas.DataFrame({"name": names})
        work: Callable[[], int]
        if part.endswith("_lookup"):
            frame["alias"] = frame["name"] = [normalize_for_temp_id(name) for name in names]
            # The normal form is the name itself: the lookup remains.
            ladder._normal_form = str  # type: ignore[assignment]
        if part == "merge_lookup":
            table = tables_of(connection.dialect.name).mappings
            known = pandas.read_sql(sa.select(table.c.alias, table.c.company_id), connection)
            work = lambda: merge_only(connection, frame, known)  # noqa: E731
        elif part == "merge":
            work = lambda: merge(connection, frame)  # noqa: E731
        else:
            work = lambda: through_ladder(connection, frame)  # noqa: E731
        began, cpu = time.perf_counter(), time.process_time() + _cpu(backend)
        with Peak() as peak:
            answered = work()
        seconds, cpu = time.perf_counter() - began, time.process_time() + _cpu(backend) - cpu
        connection.rollback()
    return {
        "part": part, "names": number, "known": answered, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
        "names_a_second": round(number / seconds), "names_a_cpu_second": round(number / cpu),
        "grown_mb": round((peak.rss - peak.before) / 2**20), "rss_mb": round(peak.rss / 2**20),
    }  # fmt: skip


def measure_ladder(store: str, url: str, number: int) -> bool:
    command = [sys.executable, "-m", "bench.companies", "--names", str(number), "--part"]
    subprocess.run([*command, "prepare", url], check=True)
    found: dict[str, dict[str, Any]] = {}
    for part in ("merge", "ladder", "merge_lookup", "ladder_lookup"):
        said = subprocess.run([*command, part, url], check=True, capture_output=True, text=True)
        found[part] = json.loads(said.stdout)
        print(json.dumps({"store": store, **found[part]}), flush=True)
    ratio = found["ladder"]["names_a_second"] / found["merge"]["names_a_second"]
    alone = found["ladder_lookup"]["names_a_second"] / found["merge_lookup"]["names_a_second"]
    right = all(one["known"] == int(number * KNOWN) for one in found.values())
    met = right and ratio >= GOAL
    answer = {"measure": f"ladder / merge, {store}", "goal": GOAL, "reached": round(ratio, 2), "met": met}
    print(json.dumps(answer | {"lookup_alone_without_reading_mappings": round(alone, 3)}), flush=True)
    return met


async def measure_limits(url: str, rows: int, rounds: int) -> list[dict[str, Any]]:
    """C12 on a table of that many requests, half of them pending."""
    engine, requests = engine_of(url), tables_of("postgresql").requests
    with engine.begin() as connection:
        create_tables(connection)
        connection.execute(sa.text(FILL.format(requests=requests.fullname)), {"rows": rows})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"VACUUM ANALYZE {requests.fullname}")
    depths: list[float] = []
    claims: list[float] = []
    mill = rm.Mill(url)
    queue, store = _queue(mill, requests), mill.store
    async with mill.opened():
        await mill.migrate()
        store.worker = await mill.run(lambda connection: fleet.register(connection, [queue]))
        for _ in range(rounds):
            for at_least in (1001, 10_001):  # the thresholds of the sensor and of the warning
                await _timed(depths, mill.run(partial(depth, sql=store.sql(queue), at_least=at_least), write=False))
            store.forget(queue)  # a new process begins at the start of the index
            leases = await _timed(claims, store.claim(queue, queue.steps[0], CLAIM))
            assert len(leases) == CLAIM
    return [
        {"measure": f"depth with {rows:,} rows, ms", "goal": DEPTH_MS, "reached": round(max(depths), 1)},
        {"measure": f"claim of {CLAIM} with {rows:,} rows, ms", "goal": CLAIM_MS, "reached": round(max(claims), 1),
         "median": round(statistics.median(claims), 1)},
        *(limit(url) for limit in LIMITS),
    ]  # fmt: skip


def measure_names(number: int) -> dict[str, Any]:
    names = company_names(number)
    began = time.process_time()
    for name in names:
        normalize_for_temp_id(name)
    answer = {"measure": "normalisations a second", "reached": round(number / (time.process_time() - began))}
    try:
        basename = import_module("cleanco").basename
    except ImportError:
        return answer
    began = time.process_time()
    for name in names[: number // 10]:
        basename(name)
    return answer | {"cleanco": round(number // 10 / (time.process_time() - began))}


async def _timed(times: list[float], work: Awaitable[T]) -> T:
    began = time.perf_counter()
    answer = await work
    times.append((time.perf_counter() - began) * 1e3)
    return answer


def _backend(connection: sa.Connection) -> psutil.Process | None:
    if connection.dialect.name == "sqlite":
        return None
    return psutil.Process(connection.scalar(sa.text("SELECT pg_backend_pid()")))


def _cpu(process: psutil.Process | None) -> float:
    return 0.0 if process is None else sum(process.cpu_times()[:2])


def _queue(mill: rm.Mill, requests: sa.Table) -> rm.Queue[Any]:
    return mill.queue(
        requests,
        columns=rm.Columns(state="status", available_at="next_retry_at", error="last_error"),
        states=rm.States(ready="pending", running="processing", done="done", dead="failed"),
        retry=rm.Retry(attempts=3, backoff=rm.steps(rm.minutes(1), rm.minutes(5), rm.minutes(15))),
        lease=rm.minutes(15),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="ladder,limits,names")
    parser.add_argument("--stores", default="postgres,sqlite")
    parser.add_argument("--part", nargs=2, metavar=("PART", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        part, url = given.part
        if part == "prepare":
            prepare(url, given.names)
        else:
            print(json.dumps(measure_part(part, url, given.names)))
        return 0
    only, met = given.only.split(","), True
    if "names" in only:
        print(json.dumps(measure_names(min(given.names, 200_000))), flush=True)
    if "ladder" in only:
        for store in given.stores.split(","):
            met &= _with_store(store, partial(measure_ladder, store, number=given.names))
    if "limits" in only:
        with bench_server() as server:
            for one in asyncio.run(measure_limits(server.url, given.rows, given.rounds)):
                one["met"] = one["reached"] <= one["goal"]
                met &= one["met"]
                print(json.dumps(one), flush=True)
    return 0 if met else 1


def _with_store(store: str, work: Callable[[str], bool]) -> bool:
    if store == "postgres":
        with bench_server() as server:
            return work(server.url)
    with tempfile.TemporaryDirectory() as folder:
        return work(f"sqlite:///{Path(folder) / 'companies.db'}")


if __name__ == "__main__":
    sys.exit(main())
