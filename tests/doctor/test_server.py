"""What the server does to all queues: old transactions, poolers, connections; and the file, on SQLite."""

import asyncpg
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.doctor import Thresholds, connections, server
from rowmill.store.open import parse_url
from tests.doctor.conftest import WORDS, Clinic, jobs_table, public_first
from tests.support.pooler import pooled

SOON = Thresholds(old_transaction=0.0)
NOWHERE = sa.make_url("postgresql://tester@127.0.0.1:9/nowhere")


@pytest.fixture
async def hospital(pg_url: str) -> Clinic:
    public_first(pg_url)
    mill = rm.Mill(pg_url)
    mill.queue(jobs_table(), columns=rm.Columns(state="status"), states=WORDS)
    await mill.migrate(tables=True)
    return Clinic(mill)


async def test_a_transaction_that_pins_the_horizon(hospital: Clinic, pg_url: str) -> None:
    holder = await asyncpg.connect(pg_url, server_settings={"application_name": "forgotten psql"})
    try:
        await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holder.execute("SELECT 1")
        pid = holder.get_server_pid()
        assert await hospital.audit() == [], "not old yet"

        finding = await hospital.only(SOON)
    finally:
        await holder.close()

    assert finding.code == "old_transaction"
    assert "forgotten psql" in finding.what
    assert f"pg_terminate_backend({pid})" in finding.fix
    assert await hospital.audit(SOON) == []


async def test_a_transaction_in_another_database_pins_nothing_here(hospital: Clinic, pg_url: str) -> None:
    holder = await asyncpg.connect(pg_url, database="postgres")
    try:
        await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holder.execute("SELECT 1")
        assert await hospital.audit(SOON) == []
    finally:
        await holder.close()


async def test_slots_and_prepared_transactions_that_pin_the_horizon(
    hospital: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real queries run in every audit; a server that allows neither answers in their place here."""
    monkeypatch.setattr(server, "SLOTS", "SELECT 'replica' AS slot_name, false AS active, 7 AS transactions")
    monkeypatch.setattr(server, "PREPARED", "SELECT 'it''s' AS gid, 900 AS seconds WHERE :limit > 0")

    found = await hospital.audit()

    assert {finding.code for finding in found} == {"replication_slot", "prepared_transaction"}
    fixes = " ".join(finding.fix for finding in found)
    assert "pg_drop_replication_slot('replica')" in fixes
    assert "ROLLBACK PREPARED 'it''s'" in fixes


async def test_a_pooler_that_breaks_listen_is_found(hospital: Clinic, pg_url: str) -> None:
    async with pooled(pg_url) as through:
        [finding] = await connections.pooler(parse_url(through))

    assert finding.code == "listen_broken"
    assert "per transaction" in finding.what
    assert await connections.pooler(parse_url(pg_url)) == []


async def test_a_pooler_does_not_keep_the_rest_from_being_looked_at(hospital: Clinic, pg_url: str) -> None:
    async with pooled(pg_url) as through:
        hospital.mill.move_to(through)

        assert "listen_broken" in await hospital.codes()


async def test_a_pooled_url_that_leads_to_the_same_database_is_fine(hospital: Clinic, pg_url: str) -> None:
    async with pooled(pg_url, strict=True) as through:
        hospital.mill.move_to(pg_url, through)

        assert await hospital.audit() == []


@pytest.mark.parametrize("fault", ["another database", "nobody there"])
async def test_a_pooled_url_that_leads_elsewhere(hospital: Clinic, pg_url: str, fault: str) -> None:
    elsewhere = sa.make_url(pg_url).set(database="postgres") if fault == "another database" else NOWHERE
    hospital.mill.move_to(pg_url, elsewhere.render_as_string(hide_password=False))

    finding = await hospital.only()

    assert finding.code == "pooled_url"
    assert ("leads to another database" if fault == "another database" else "does not answer") in finding.what


async def test_more_handlers_than_connections(hospital: Clinic) -> None:
    queue = hospital.mill["jobs"]

    @queue.handler(concurrency=50)
    async def work(lease: rm.Lease[rm.Record]) -> None:
        pass

    finding = await hospital.only()

    assert finding.code == "pool_small"
    assert "50 handlers" in finding.what


async def test_a_pool_that_is_large_enough(hospital: Clinic) -> None:
    @hospital.mill["jobs"].handler(concurrency=5)
    async def work(lease: rm.Lease[rm.Record]) -> None:
        pass

    assert await hospital.audit() == []


async def test_fewer_connections_than_the_fleet_needs(hospital: Clinic, pg_url: str) -> None:
    await hospital.sql(f"ALTER DATABASE {sa.make_url(pg_url).database} CONNECTION LIMIT 5")

    finding = await hospital.only()

    assert finding.code == "connections"
    assert "the server has 5" in finding.what


async def test_a_read_only_database(hospital: Clinic, pg_url: str) -> None:
    await hospital.sql(f"ALTER DATABASE {sa.make_url(pg_url).database} SET default_transaction_read_only = on")

    assert "read_only" in await hospital.codes()


MOUNTS = """
/dev/sda1 / ext4 rw 0 0
nas:/export /srv/share nfs4 rw,vers=4.2 0 0
//host/c /mnt/with\\040space cifs rw 0 0
/dev/sdb1 /srv/share/local xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/app/jobs.db", False),
        ("/srv/share/jobs.db", True),
        ("/mnt/with space/jobs.db", True),
        ("/srv/share/local/jobs.db", False),
        ("/srv/shared/jobs.db", False),
    ],
)
def test_a_file_on_a_network_disk(path: str, found: bool) -> None:
    codes = [finding.code for finding in server.network_file(path, MOUNTS)]

    assert codes == (["network_file"] if found else [])


def test_a_journal_that_is_not_wal(tmp_path: object) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/jobs.db")
    with engine.connect() as connection:
        before = [finding.code for finding in server.sqlite_file(connection, "/jobs.db")]
        connection.exec_driver_sql("PRAGMA journal_mode = WAL").close()
        after = list(server.sqlite_file(connection, "/jobs.db"))
    engine.dispose()

    assert before == ["journal_mode"]
    assert after == []
