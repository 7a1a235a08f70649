"""The tables, and how tables that were there before become these."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects.postgresql import JSONB

import rowmill as rm
from rowmill.integrations import alembic as rowmill_alembic
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.feeds.links import canonical_link
from rowmill_systems.articles.migrations import revisions
from rowmill_systems.articles.models import ArticlesBase
from rowmill_systems.articles.saving import SavedEntries
from systems.tests.articles.harness import articles_on, entry, settings_for

pytestmark = pytest.mark.empty_database

SOURCE, FIRST, SECOND, THIRD = (uuid.UUID(int=n + 1) for n in range(4))
OF_BEFORE = """
CREATE TABLE sources (id {uuid} PRIMARY KEY, name TEXT, url TEXT NOT NULL, granular_topics {json}, note TEXT);
CREATE TABLE contents (
    id {uuid} PRIMARY KEY, source_id {uuid} NOT NULL REFERENCES sources (id), title TEXT, description TEXT, url TEXT,
    published_at {moment}, topics {json}
);
CREATE TABLE classification_queue (
    id {uuid} PRIMARY KEY, content_id {uuid} NOT NULL UNIQUE, status VARCHAR(20), priority INTEGER,
    retry_count INTEGER, error_message TEXT, created_at {moment}, updated_at {moment}, processed_at {moment}
)
"""


def types_of(url: str) -> dict[str, str]:
    if url.startswith("postgresql"):
        return {"uuid": "UUID", "json": "JSONB", "moment": "TIMESTAMPTZ"}
    return {"uuid": "CHAR(32)", "json": "JSON", "moment": "TIMESTAMP"}


async def make_old_tables(url: str, definition: str = OF_BEFORE, *, rows: bool = True) -> rm.Mill:
    mill = rm.Mill(url)

    def make(connection: sa.Connection) -> None:
        for statement in definition.format(**types_of(url)).split(";"):
            connection.exec_driver_sql(statement)
        if rows:
            insert_old_rows(connection)

    await mill.run(make)
    return mill


def insert_old_rows(connection: sa.Connection) -> None:
    kinds: dict[str, Any] = {
        "id": sa.Uuid, "source_id": sa.Uuid, "content_id": sa.Uuid, "updated_at": sa.DateTime(True),
        "retry_count": sa.Integer, "topics": sa.JSON().with_variant(JSONB(), "postgresql"),
    }  # fmt: skip

    def add(name: str, *given: dict[str, Any]) -> None:
        for row in given:
            table = sa.table(name, *(sa.column(key, kinds.get(key, sa.Text)) for key in row))
            connection.execute(sa.insert(table).values(row))

    add("sources", {"id": SOURCE, "url": "https://Example.org:8443/feed", "note": "mine"})
    add(
        "contents",
        {"id": FIRST, "source_id": SOURCE, "title": "one", "description": "<p>a &amp; b</p>", "url": "https://example.org/one",
         "topics": ["theirs"]},
        {"id": SECOND, "source_id": SOURCE, "title": "two", "url": "https://example.org/one"},
        {"id": THIRD, "source_id": SOURCE, "title": None},
    )  # fmt: skip
    past = datetime(2020, 1, 1, tzinfo=UTC)
    add(
        "classification_queue",
        {"id": FIRST, "content_id": FIRST, "status": "completed", "retry_count": 2},
        {"id": SECOND, "content_id": SECOND, "status": "processing", "retry_count": 1, "updated_at": past},
        {"id": THIRD, "content_id": THIRD, "status": None},
    )


async def test_the_tables_have_the_indexes_that_operators_know(database_url: str) -> None:
    """A2, A2+."""
    async with articles_on(database_url, migrate=True) as harness:
        definition = (
            "SELECT indexname, indexdef FROM pg_indexes"
            if database_url.startswith("postgresql")
            else "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''"
        )
        found = dict(map(tuple, await harness.read(sa.text(definition))))
        assert "(status, created_at)" in found["idx_queue_status_created"]
        assert "(priority DESC, created_at)" in found["idx_queue_priority"]
        assert "topics" in found["idx_contents_topics"]
        if database_url.startswith("postgresql"):
            assert "USING gin (topics)" in found["idx_contents_topics"]
        assert "UNIQUE" in found["uq_classification_queue_content"]


async def test_plain_sql_can_write_no_sixth_status(database_url: str) -> None:
    """A2."""
    async with articles_on(database_url, migrate=True) as harness:
        await harness.save("a")
        with pytest.raises(sa.exc.IntegrityError):
            await harness.sql("UPDATE classification_queue SET status = 'new'")


async def test_plain_inserts_need_neither_keys_nor_times(database_url: str) -> None:
    async with articles_on(database_url, migrate=True) as harness:
        await harness.sql("INSERT INTO sources (url, host) VALUES ('https://a.example/feed', 'a.example')")
        [row] = await harness.read(
            sa.select(ArticlesBase.metadata.tables["sources"]).where(sa.text("host = 'a.example'"))
        )
        assert (row.id.version, row.status, row.failures) == (4, "due", 0)
        assert row.created_at is not None


async def test_tables_of_before_become_these(database_url: str) -> None:
    """What they hold stays, but for HTML that is not safe; what is missing is filled in."""
    await make_old_tables(database_url)
    async with articles_on(database_url, migrate=True, source=None) as harness:
        [source] = await harness.read(sa.text("SELECT host, status, note, title, failures FROM sources"))
        assert tuple(source) == ("example.org:8443", "due", "mine", "", 0)
        contents = {row.id: row for row in (await harness.contents()).values()}
        one, two, three = contents[FIRST], contents[SECOND], contents[THIRD]
        assert (one.identity, one.text, one.topics) == ("link:https://example.org/one", "a & b", ["theirs"])
        assert two.identity == f"id:{SECOND}", "the same link once more"
        assert (three.title, three.description, three.identity) == ("", "", f"id:{THIRD}")
        assert len({row.text_hash for row in contents.values()}) == 3
        rows = {row.id: row for row in (await harness.requests()).values()}
        assert {key: row.status for key, row in rows.items()} == {
            FIRST: "completed", SECOND: "processing", THIRD: "pending",
        }  # fmt: skip
        assert rows[FIRST].processed_at is not None
        assert (rows[THIRD].priority, rows[THIRD].retry_count) == (0, 0)
        report = await harness.mill.drain([harness.articles.requests.name])
        assert (report.done, report.rescued) == (2, 1), "one had been in processing since 2020"
        assert (await harness.contents())["link:https://example.org/one"].topics == ["theirs"]


async def test_an_article_of_before_is_found_by_its_link(database_url: str) -> None:
    """The first sync gives it the identity of the feed, and makes no second article of it."""
    await make_old_tables(database_url)
    async with articles_on(database_url, migrate=True, source=None) as harness:
        same = entry("guid 1", url="https://example.org/one", title="one", text="a & b")
        assert await harness.save(same, source_id=SOURCE) == SavedEntries(updated=1)
        contents = await harness.contents()
        assert (contents["guid 1"].id, contents["guid 1"].topics) == (FIRST, ["theirs"])
        assert len(contents) == 3
        assert await harness.save(same, source_id=SOURCE) == SavedEntries(unchanged=1)
        other = entry("guid 1", url="https://example.org/one", title="one", text="other words")
        assert (await harness.save(other, source_id=SOURCE)).queued == 1


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ("https://Example.org/one?utm_source=rss&a=1", "https://example.org/one?a=1"),
        ("https://example.org", "https://example.org/"),
        ("HTTP://example.org:80/one", "http://example.org/one"),
    ],
)
async def test_an_article_of_before_is_found_by_its_link_however_it_was_written(
    database_url: str, stored: str, given: str
) -> None:
    assert canonical_link(stored) == given, "as a feed has it"
    mill = await make_old_tables(database_url)
    change = sa.text("UPDATE contents SET url = :stored WHERE title = 'one'")
    await mill.run(lambda connection: connection.execute(change, {"stored": stored}).close())
    async with articles_on(database_url, migrate=True, source=None) as harness:
        assert (await harness.save(entry("guid 1", url=given), source_id=SOURCE)).new == 0
        contents = await harness.contents()
        assert (contents["guid 1"].id, len(contents)) == (FIRST, 3)


async def test_html_of_before_is_sanitised(database_url: str) -> None:
    mill = await make_old_tables(database_url)
    change = sa.text("UPDATE contents SET description = :html WHERE title = 'one'")
    html = "<p onclick='x()'>kept</p><script>alert(1)</script><a href='javascript:x()'>link</a>"
    await mill.run(lambda connection: connection.execute(change, {"html": html}).close())
    async with articles_on(database_url, migrate=True, source=None) as harness:
        row = (await harness.contents())["link:https://example.org/one"]
        assert row.description == '<p>kept</p><a rel="noopener noreferrer nofollow">link</a>'
        assert "alert" not in row.text


@pytest.mark.parametrize("there", [False, True])
async def test_the_migration_can_be_run_again(database_url: str, there: bool) -> None:
    if there:
        await make_old_tables(database_url)
    for _ in range(2):
        await Articles(settings_for(database_url)).migrate()
    async with articles_on(database_url, source=None) as harness:
        assert await harness.mill.run(revisions.current, write=False) == revisions.heads()
        assert len(await harness.contents()) == (3 if there else 0)


async def shape(mill: rm.Mill) -> dict[str, tuple[list[str], list[str]]]:
    """The columns and indexes of each table, other than Rowmill's and Alembic's."""

    def look(connection: sa.Connection) -> dict[str, tuple[list[str], list[str]]]:
        inspector = sa.inspect(connection)
        return {
            name: (
                [column["name"] for column in inspector.get_columns(name)],
                sorted(str(index["name"]) for index in inspector.get_indexes(name)),
            )
            for name in inspector.get_table_names()
            if not name.startswith("rowmill_") and "alembic" not in name
        }

    return await mill.run(look, write=False)


async def test_a_downgrade_keeps_the_tables_that_were_there(database_url: str) -> None:
    mill = await make_old_tables(database_url)
    before = await shape(mill)
    async with articles_on(database_url, migrate=True, source=None) as harness:
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "articles@base"))
        assert await shape(harness.mill) == before
        [note] = await harness.read(sa.text("SELECT note FROM sources"))
        assert note == ("mine",)
        await harness.articles.migrate()
        assert len(await harness.contents()) == 3


async def test_a_downgrade_takes_away_tables_of_ours(database_url: str) -> None:
    async with articles_on(database_url, migrate=True) as harness:
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "articles@base"))
        assert await shape(harness.mill) == {}
        await harness.articles.migrate()
        await harness.add_source("https://example.org/again", id=harness.source_id)
        assert (await harness.save("a")).new == 1


async def test_one_table_of_before_and_two_of_ours(database_url: str) -> None:
    await make_old_tables(database_url, OF_BEFORE.split(";")[0], rows=False)
    async with articles_on(database_url, migrate=True) as harness:
        await harness.save("a")
        await harness.bench.drain()
        assert await harness.states() == {"a": "completed"}
        await harness.mill.run(lambda connection: revisions.downgrade(connection, "articles@base"))
        assert list(await shape(harness.mill)) == ["sources"]


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("CREATE TABLE sources (id {uuid} PRIMARY KEY, address TEXT)", "RENAME COLUMN … TO url"),
        ("CREATE TABLE sources (url TEXT PRIMARY KEY, id {uuid})", "has to be id"),
        (
            "CREATE TABLE sources (id {uuid} PRIMARY KEY, url TEXT, status TEXT);"
            "INSERT INTO sources VALUES ('00000000000000000000000000000001', 'https://a.example', 'active')",
            "column status holds active",
        ),
        (
            "CREATE TABLE sources (id {uuid} PRIMARY KEY, url TEXT);"
            "INSERT INTO sources VALUES ('00000000000000000000000000000001', 'https://a.example');"
            "INSERT INTO sources VALUES ('00000000000000000000000000000002', 'https://a.example')",
            "1 values of .url. are there more than once",
        ),
    ],
)
async def test_a_table_that_can_t_be_worked_on_is_refused_with_what_to_do(
    database_url: str, definition: str, message: str
) -> None:
    mill = await make_old_tables(database_url, definition, rows=False)
    before = await shape(mill)
    with pytest.raises(rm.errors.SchemaMismatch, match=message):
        await mill.run(revisions.upgrade)
    assert await shape(mill) == before, "nothing was changed"


async def test_columns_of_another_type_are_refused_on_postgresql(pg_url: str) -> None:
    mill = await make_old_tables(
        pg_url,
        "CREATE TYPE queue_status AS ENUM ('pending');"
        "CREATE TABLE classification_queue (id BIGINT PRIMARY KEY, content_id UUID, "
        "status queue_status DEFAULT 'pending', created_at TIMESTAMP);"
        "CREATE TABLE contents (id UUID PRIMARY KEY, source_id UUID, title TEXT, topics TEXT[])",
        rows=False,
    )
    with pytest.raises(rm.errors.SchemaMismatch, match=r"TYPE jsonb USING to_jsonb\(topics\)"):
        await mill.run(revisions.upgrade)
    await mill.run(
        lambda c: c.exec_driver_sql("ALTER TABLE contents ALTER topics TYPE jsonb USING to_jsonb(topics)").close()
    )
    with pytest.raises(rm.errors.SchemaMismatch) as refused:
        await mill.run(revisions.upgrade)
    text = str(refused.value)
    assert "column id holds BIGINT" in text
    assert "ALTER COLUMN status DROP DEFAULT, ALTER COLUMN status TYPE text" in text
    assert "created_at AT TIME ZONE 'UTC'" in text


async def test_keys_with_dashes_are_refused_on_sqlite(sqlite_url: str) -> None:
    mill = await make_old_tables(
        sqlite_url,
        "CREATE TABLE sources (id TEXT PRIMARY KEY, url TEXT);"
        f"INSERT INTO sources VALUES ('{uuid.uuid4()}', 'https://a.example')",
        rows=False,
    )
    with pytest.raises(rm.errors.SchemaMismatch, match="not 32 hexadecimal digits"):
        await mill.run(revisions.upgrade)


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
async def test_the_migration_and_the_models_agree(database_url: str) -> None:
    """Autogenerate has nothing to say."""
    async with articles_on(database_url, migrate=True) as harness:

        def differences(connection: sa.Connection) -> list[Any]:
            options = {
                "version_table": revisions.version_table,
                "include_name": rowmill_alembic.include_name,
                "include_object": rowmill_alembic.include_object,
            }
            context = MigrationContext.configure(connection, opts=options)
            found = compare_metadata(context, ArticlesBase.metadata)
            # Alembic can't see on SQLite in which direction an index runs.
            ours = ("articles_meta", *(["idx_queue_priority"] if connection.dialect.name == "sqlite" else []))
            return [each for each in found if not any(name in str(each) for name in ours)]

        assert await harness.mill.run(differences, write=False) == []
