"""A mill in good health, and what is wrong with its tables and indexes."""

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill.doctor import FindingSeverity
from tests.doctor.conftest import WORDS, Clinic, jobs_table, public_first


async def test_a_healthy_mill_has_no_findings(clinic: Clinic) -> None:
    assert await clinic.audit() == []


async def test_a_healthy_mill_with_rows_in_every_state_is_still_healthy(clinic: Clinic) -> None:
    await clinic.sql(*(clinic.insert(word) for word in ["'done'"] * 5))
    await clinic.sql(clinic.insert("'pending'", available_at=clinic.at(600)))

    assert await clinic.audit() == []


@pytest.mark.parametrize("kind", ["plain", "priority", "in order"])
async def test_a_new_table_with_the_mixin_is_healthy(clinic_url: str, kind: str) -> None:
    class Base(DeclarativeBase): ...

    class Article(rm.QueueMixin, Base):
        __tablename__ = "article"

        id: Mapped[int] = mapped_column(primary_key=True)
        parent: Mapped[int]

    mill = rm.Mill(clinic_url)
    match kind:
        case "plain":
            mill.queue(Article)
        case "priority":
            mill.queue(Article, order=rm.Order(priority="parent"))
        case "in order":
            mill.queue(Article, order_per_key=rm.OrderPerKey(per="parent"))
    await mill.migrate(tables=True)

    assert await Clinic(mill).audit() == []


async def test_an_audit_changes_nothing(clinic: Clinic) -> None:
    await clinic.sql(clinic.insert("'pending'"), clinic.insert("'processing'"))

    assert await clinic.audit() == await clinic.audit()


@pytest.mark.empty_database
async def test_missing_tables_of_ours(clinic_url: str) -> None:
    mill = rm.Mill(clinic_url)
    mill.queue(jobs_table(), columns=rm.Columns(state="status"), states=WORDS)
    clinic = Clinic(mill)

    codes = await clinic.codes()

    assert codes == {"schema_missing", "table_missing"}


async def test_tables_of_ours_of_another_version(clinic: Clinic) -> None:
    own = "rowmill.meta" if clinic.postgres else "rowmill_meta"
    await clinic.sql(f"UPDATE {own} SET version = version + 1 WHERE version = (SELECT max(version) FROM {own})")
    newer = await clinic.only()
    await clinic.sql(f"DELETE FROM {own}", f"INSERT INTO {own} VALUES (0)")
    older = await clinic.only()

    assert (newer.code, newer.severity) == ("schema_new", FindingSeverity.ERROR)
    assert (older.code, older.fix) == ("schema_old", "rowmill migrate")


async def test_a_missing_column(clinic: Clinic) -> None:
    await clinic.sql("DROP INDEX rowmill_jobs_running", "ALTER TABLE jobs DROP COLUMN leased_until")

    finding = await clinic.only()

    assert (finding.code, finding.fix) == ("column_missing", "rowmill adopt jobs --apply")
    assert finding.queue == "jobs"


async def test_a_missing_index(clinic: Clinic) -> None:
    await clinic.sql("DROP INDEX rowmill_jobs_work_ready")

    finding = await clinic.only()

    assert (finding.code, finding.severity) == ("index_missing", FindingSeverity.ERROR)
    assert "rowmill_jobs_work_ready" in finding.what


async def test_an_invalid_index(postgres: Clinic) -> None:
    await postgres.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rowmill_jobs_running'::regclass")

    assert (await postgres.only()).code == "index_invalid"


async def test_an_index_for_other_words_is_not_reached(clinic: Clinic) -> None:
    """The words of the code changed, the index did not: it is there, and serves nothing."""
    await clinic.sql(
        "DROP INDEX rowmill_jobs_work_ready",
        "CREATE INDEX rowmill_jobs_work_ready ON jobs (available_at, id) WHERE status IN ('queued')",
    )

    found = await clinic.audit()

    assert [finding.code for finding in found] == ["index_unreachable", "index_differs"]
    assert "the claim of stage work" in found[0].what
    assert {finding.fix for finding in found} == {"rowmill adopt jobs --apply"}


async def test_an_index_in_another_order_is_not_reached(clinic: Clinic) -> None:
    await clinic.sql(
        "DROP INDEX rowmill_jobs_work_ready",
        "CREATE INDEX rowmill_jobs_work_ready ON jobs (secret) WHERE status IN ('pending')",
    )

    assert await clinic.codes() == {"index_unreachable", "index_differs"}


async def test_an_index_that_another_takes_the_place_of_is_not_reached(postgres: Clinic) -> None:
    """It serves, in its way: over the rows that are finished, too."""
    await postgres.sql(
        "DROP INDEX rowmill_jobs_work_ready",
        "CREATE INDEX rowmill_jobs_work_ready ON jobs (available_at NULLS FIRST, id) WHERE status IN ('queued')",
        "CREATE INDEX of_their_own ON jobs (available_at NULLS FIRST, id)",
    )

    found = await postgres.audit()

    assert found[0].code == "index_unreachable"
    assert "another index is used" in found[0].what


@pytest.mark.parametrize("kind", ["priority", "order", "in order", "stages"])
async def test_queues_of_every_kind_reach_their_indexes(clinic_url: str, kind: str) -> None:
    mill = rm.Mill(clinic_url)
    table = jobs_table(
        sa.Column("prio", sa.Integer), sa.Column("born", sa.DateTime(timezone=True), nullable=False),
        sa.Column("parent", sa.Text),
    )  # fmt: skip
    columns = rm.Columns(state="status")
    match kind:
        case "priority":
            mill.queue(table, columns=columns, states=WORDS, order=rm.Order(priority="prio"))
        case "order":
            mill.queue(table, columns=columns, states=WORDS, order=rm.Order(by=("born",)))
        case "in order":
            mill.queue(table, columns=columns, states=WORDS, order_per_key=rm.OrderPerKey(per="parent"))
        case "stages":
            stages = [rm.Stage("link", "new", "linking"), rm.Stage("fetch", "linked", "fetching", "fetch_failed")]
            mill.queue(table, columns=columns, states=WORDS, stages=stages)
    await mill.migrate(tables=True)

    assert await Clinic(mill).audit() == []


async def test_a_missing_or_switched_off_trigger(postgres: Clinic) -> None:
    await postgres.sql("ALTER TABLE jobs DISABLE TRIGGER rowmill_wake")
    off = await postgres.only()
    await postgres.sql("DROP TRIGGER rowmill_wake ON jobs")
    missing = await postgres.only()

    assert off.code == missing.code == "trigger_missing"


async def test_a_word_that_the_table_refuses(postgres: Clinic) -> None:
    await postgres.sql("ALTER TABLE jobs ADD CONSTRAINT words CHECK (status IN ('pending', 'processing', 'done'))")

    finding = await postgres.only()

    assert finding.code == "word_refused"
    assert "'failed'" in finding.what


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("ALTER TABLE jobs ALTER COLUMN lease TYPE integer", "column_type"),
        ("ALTER TABLE jobs ALTER COLUMN attempts TYPE text", "column_type"),
        ("ALTER TABLE jobs ALTER COLUMN finished_at TYPE bigint USING 0", "column_type"),
        ("ALTER TABLE jobs ALTER COLUMN finished_at TYPE timestamp", "column_type"),
        ("ALTER TABLE jobs ALTER COLUMN error TYPE varchar(100)", "column_too_short"),
        ("ALTER TABLE jobs ALTER COLUMN error SET NOT NULL", "column_not_null"),
    ],
)
async def test_a_column_that_cannot_hold_what_is_written(postgres: Clinic, statement: str, code: str) -> None:
    await postgres.sql(statement)

    assert code in await postgres.codes()


async def test_a_column_that_must_not_be_null_on_sqlite(sqlite_url: str) -> None:
    mill = rm.Mill(sqlite_url)
    mill.queue(jobs_table(), columns=rm.Columns(state="status"), states=WORDS)
    clinic = Clinic(mill)
    await mill.migrate()
    await clinic.sql(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, attempts INTEGER, available_at DATETIME, "
        "lease BIGINT, leased_until DATETIME, error TEXT NOT NULL, finished_at DATETIME, secret TEXT)"
    )
    await mill.migrate()

    assert (await clinic.only()).code == "column_not_null"


async def test_times_without_a_zone_in_a_database_that_is_not_at_utc(pg_url: str) -> None:
    public_first(pg_url)
    mill = rm.Mill(pg_url)
    mill.queue(jobs_table(zone=False), columns=rm.Columns(state="status"), states=WORDS)
    clinic = Clinic(mill)
    await mill.migrate(tables=True)
    assert await clinic.audit() == []
    await clinic.sql(f"ALTER DATABASE {sa.make_url(pg_url).database} SET timezone = 'Asia/Shanghai'")

    assert (await clinic.only()).code == "naive_times"


async def test_a_role_whose_tables_land_among_ours(pg_url: str) -> None:
    mill = rm.Mill(pg_url)
    clinic = Clinic(mill)
    await mill.migrate()
    await clinic.sql(f"ALTER DATABASE {sa.make_url(pg_url).database} SET search_path = rowmill, public")

    assert (await clinic.only()).code == "schema_first"
