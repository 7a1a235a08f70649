"""What is guessed, what is asked, and what is left alone."""

import pytest
import sqlalchemy as sa

from rowmill.adopt import AdoptOptions, StepKind, table_facts
from rowmill.model.errors import BadRequest, UnknownQueue
from rowmill.model.lifecycle import StateKind
from tests.adopt.conftest import Site
from tests.adopt.tables import CODES, PLAIN

pytestmark = pytest.mark.empty_database


async def test_numbers_are_a_guess_that_must_be_confirmed(site: Site) -> None:
    await site.make(CODES)

    guessed = await site.look("jobs")
    said = await site.look("jobs", CODES.choices)

    assert "--ready N --running N --done N --dead N" in guessed.doubts[0]
    assert said.doubts == []
    assert said.states[StateKind.DEAD] == (9,)


async def test_usual_numbers_are_read_as_usual(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, state integer)", "INSERT INTO jobs VALUES (1, 0), (2, 1), (3, 2)"
    )

    found = await site.look("jobs")

    assert found.states == {StateKind.READY: (0,), StateKind.RUNNING: (1,), StateKind.DONE: (2,), StateKind.DEAD: (3,)}
    assert found.doubts != []


async def test_a_comment_says_what_numbers_mean(postgres: Site) -> None:
    await postgres.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status smallint)",
        "COMMENT ON COLUMN jobs.status IS '10 = new, 20 = running, 30 = done, 40 = error'",
    )

    found = await postgres.look("jobs")

    assert found.states == {
        StateKind.READY: (10,),
        StateKind.RUNNING: (20,),
        StateKind.DONE: (30,),
        StateKind.DEAD: (40,),
    }
    assert found.doubts == []


async def test_of_two_status_columns_the_one_with_the_words_of_a_queue_is_taken(site: Site) -> None:
    await site.sql(
        "CREATE TABLE entities (id integer PRIMARY KEY, status text, enrichment_status text, enrichment_error text, "
        "error text, enriched_at timestamp)",
        "INSERT INTO entities (id, status, enrichment_status) "
        "VALUES (1, 'draft', 'PENDING'), (2, 'final', 'ENRICHED'), (3, 'final', 'FAILED')",
    )

    found = await site.look("entities", AdoptOptions(words={StateKind.DONE: ("ENRICHED",)}))

    assert found.columns["state"] == "enrichment_status"
    assert found.columns["error"] == "enrichment_error"
    assert found.columns["finished_at"] == "enriched_at"
    assert found.states[StateKind.RUNNING] == ("PROCESSING",), (
        "a word that is missing is made in the style of the others"
    )


async def test_words_that_mean_nothing_are_named_and_left_alone(site: Site) -> None:
    await site.make(PLAIN)
    if site.postgres:
        await site.sql("ALTER TABLE enrichment_requests DROP CONSTRAINT enrichment_requests_status_check")
    else:
        await site.sql(
            "PRAGMA ignore_check_constraints = ON", "UPDATE enrichment_requests SET status = 'banana' WHERE id = 1"
        )
    await site.sql("UPDATE enrichment_requests SET status = 'banana' WHERE id = 1")

    found = await site.adopt("enrichment_requests")

    assert found.unknown == {"banana": 1}
    assert any("'banana'" in note for note in found.notes)
    assert await site.value("SELECT status FROM enrichment_requests WHERE id = 1") == "banana"


async def test_a_second_word_for_ready_is_not_taken_by_itself(site: Site) -> None:
    """It may wait for something else, such as a person: its rows would be worked on too early."""
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        "INSERT INTO jobs VALUES (1, 'pending'), (2, 'new'), (3, 'done'), (4, 'failed')",
    )

    guessed = await site.look("jobs")
    said = await site.look("jobs", AdoptOptions(words={StateKind.READY: ("pending", "new")}))

    assert guessed.states[StateKind.READY] == ("pending",)
    assert guessed.unknown == {"new": 1}
    assert any("--ready pending --ready new" in doubt for doubt in guessed.doubts)
    assert said.doubts == []
    assert said.states[StateKind.READY] == ("pending", "new")


async def test_of_dead_and_failed_neither_is_tried_again_by_itself(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        "INSERT INTO jobs VALUES (1, 'pending'), (2, 'failed'), (3, 'failed'), (4, 'dead')",
    )

    found = await site.look("jobs")

    assert found.states[StateKind.DEAD] == ("failed", "dead")
    assert any("--waiting WORD" in note for note in found.notes)


async def test_no_word_for_ready_is_a_doubt(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)", "INSERT INTO jobs VALUES (1, 'apple'), (2, 'done')"
    )

    found = await site.look("jobs")

    assert any("--ready WORD" in doubt for doubt in found.doubts)


async def test_a_table_in_which_nothing_says_done_is_a_doubt(site: Site) -> None:
    await site.sql("CREATE TABLE mails (id integer PRIMARY KEY, body text)", "INSERT INTO mails VALUES (1, 'a')")

    found = await site.look("mails")

    assert any("--sure" in doubt for doubt in found.doubts)


async def test_a_wait_in_seconds_is_no_time(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, retry_after integer)",
        "INSERT INTO jobs VALUES (1, 'pending', 300)",
    )

    found = await site.look("jobs")

    assert found.columns["available_at"] == "available_at"


async def test_milliseconds_are_told_from_seconds(site: Site) -> None:
    await site.make(CODES)

    found = await site.look("jobs", CODES.choices)

    assert 'epoch="ms"' in (found.declaration or "")


async def test_a_name_that_is_taken_is_not_used_again(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text, lease text, error integer)")

    found = await site.adopt("jobs")

    assert found.columns["lease"] == "queue_lease"
    assert found.columns["error"] == "queue_error"


async def test_the_caller_knows_better(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, phase text, oops text, error text)",
        "INSERT INTO jobs VALUES (1, 'pending', 'go', '', '')",
    )
    choices = AdoptOptions(
        state="phase",
        words={StateKind.READY: ("go",), StateKind.DONE: ("gone",), StateKind.DEAD: ("stuck",)},
        columns={"error": "oops"},
        lower_first=True,
        lease=30.0,
    )

    found = await site.look("jobs", choices)

    assert found.columns["state"] == "phase"
    assert found.columns["error"] == "oops"
    assert found.states[StateKind.DONE] == ("gone",)
    assert "lease=rm.seconds(30)" in (found.declaration or "")


async def test_a_column_that_is_not_there_is_refused(site: Site) -> None:
    await site.make(PLAIN)

    with pytest.raises(BadRequest, match=r"no column nope. It has: id, raw_name"):
        await site.look("enrichment_requests", AdoptOptions(state="nope"))
    with pytest.raises(BadRequest, match="no part nonsense"):
        await site.look("enrichment_requests", AdoptOptions(columns={"nonsense": "id"}))


async def test_a_table_that_is_not_there_is_refused_with_those_that_are(site: Site) -> None:
    await site.make(PLAIN)

    with pytest.raises(UnknownQueue, match=r"no table enrichment in .*It has: enrichment_requests"):
        await site.look("enrichment")


async def test_a_table_without_a_primary_key_is_told_how_to_get_one(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (status text)")

    found = await site.look("jobs")

    assert "ADD COLUMN id" in found.plan.obstacles[0] if site.postgres else found.plan.obstacles
    assert found.plan.changes == []


async def test_a_view_is_refused(site: Site) -> None:
    await site.make(PLAIN)
    await site.sql("CREATE VIEW requests AS SELECT * FROM enrichment_requests")

    found = await site.look("requests")

    assert "view" in found.plan.obstacles[0]


async def test_a_rare_word_of_a_big_table_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows of 3,000 are in progress, far from both ends: an index, or the planner, knows of them."""
    monkeypatch.setattr(table_facts, "ALL", 100)
    monkeypatch.setattr(table_facts, "SAMPLE", 50)
    series = "generate_series(1, 3000) AS n" if site.postgres else SERIES
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        f"INSERT INTO jobs SELECT n, CASE WHEN n < 2900 THEN 'completed' ELSE 'queued' END FROM {series}",
        "UPDATE jobs SET status = 'failed' WHERE id IN (1, 2)",
    )
    if site.postgres:
        await site.sql("UPDATE jobs SET status = 'running' WHERE id BETWEEN 1500 AND 1502")
        await site.sql("CREATE INDEX ON jobs (status)", "CREATE INDEX ON jobs (id) WHERE status = 'queued'")

    found = await site.look("jobs")

    assert not found.exact
    assert found.states[StateKind.READY] == ("queued",)
    assert found.states[StateKind.DONE] == ("completed",)
    assert found.states[StateKind.DEAD] == ("failed",)
    if site.postgres:
        assert found.states[StateKind.RUNNING] == ("running",)


SERIES = "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 3000) SELECT n FROM s)"


@pytest.mark.parametrize(
    "name",
    [
        "error_text",
        "failure_reason",
        "err_text",
        "err_msg",
        "ErrMsg",
        "error_details",
        "failed_reason",
        "last_exception",
    ],
)
async def test_the_column_for_the_error_goes_by_many_names(site: Site, name: str) -> None:
    await site.sql(f'CREATE TABLE jobs (id integer PRIMARY KEY, status text, "{name}" text)')

    found = await site.look("jobs")

    assert found.columns["error"] == name
    assert name not in found.added


async def test_an_index_that_is_there_is_not_missing_because_a_column_is(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text)")
    await site.adopt("jobs")
    await site.sql("ALTER TABLE jobs DROP COLUMN finished_at")

    found = await site.adopt("jobs")

    assert [change.part for change in found.plan.changes] == [StepKind.COLUMN]


async def test_the_index_of_a_column_that_is_missing_is_missing_too(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text)")
    await site.adopt("jobs")
    await site.sql("DROP INDEX rowmill_jobs_running", "ALTER TABLE jobs DROP COLUMN leased_until")

    found = await site.adopt("jobs")

    parts = [change.what for change in found.plan.changes if change.part is StepKind.INDEX]
    assert parts == ["index rowmill_jobs_running (rescue) is missing"]


async def test_another_index_in_the_place_of_one_whose_column_is_missing_is_made_anew(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer PRIMARY KEY, status text)")
    await site.adopt("jobs")
    await site.sql(
        "DROP INDEX rowmill_jobs_running",
        "ALTER TABLE jobs DROP COLUMN leased_until",
        "CREATE INDEX rowmill_jobs_running ON jobs (status)",
    )

    found = await site.adopt("jobs")

    parts = [change.what for change in found.plan.changes if change.part is StepKind.INDEX]
    assert parts == ["index rowmill_jobs_running (rescue) was made for other words or columns"]


@pytest.mark.parametrize("name", ["retry_count", "enrichment_retry_count", "retries", "failures"])
async def test_a_column_whose_name_says_so_counts_failures(site: Site, name: str) -> None:
    await site.sql(
        f"CREATE TABLE jobs (id integer PRIMARY KEY, enrichment_status text, {name} integer NOT NULL DEFAULT 0)",
        "INSERT INTO jobs VALUES (1, 'pending', 0), (2, 'done', 1), (3, 'failed', 3)",
    )

    found = await site.adopt("jobs")

    assert found.columns["attempts"] == name
    assert site.declared(found)["jobs"].counting == "failures"
    assert any(f"{name} is taken for a count of failed tries" in note for note in found.notes)


async def test_other_counts_are_of_all_attempts(site: Site) -> None:
    await site.make(PLAIN)

    found = await site.adopt("enrichment_requests")

    assert "counts=" not in str(found.declaration)
    assert site.declared(found)["enrichment_requests"].counting == "attempts"


async def test_rows_that_the_first_claim_would_bury_are_named(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, attempts integer NOT NULL DEFAULT 0)",
        "INSERT INTO jobs VALUES (1, 'pending', 0), (2, 'pending', 3), (3, 'pending', 8), (4, 'failed', 3)",
    )

    found = await site.adopt("jobs")

    [note] = [note for note in found.notes if "their next claim buries them" in note]
    assert note.startswith("2 rows are ready that have had 3 attempts or more")
    await site.sql(note.partition("If they should run: ")[2])
    assert await site.value("SELECT sum(attempts) FROM jobs") == 3


async def test_a_limit_of_the_rows_own_decides_which_the_first_claim_would_bury(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, attempts integer NOT NULL, max_attempts integer)",
        "INSERT INTO jobs VALUES (1, 'pending', 4, 9), (2, 'pending', 1, 1), (3, 'pending', 3, NULL)",
    )

    found = await site.look("jobs")

    [note] = [note for note in found.notes if "their next claim buries them" in note]
    assert note.startswith("2 rows are ready that have had as many attempts as their max_attempts says or more")


@pytest.mark.parametrize("default", ["", " NOT NULL", " DEFAULT 'fresh'"])
async def test_a_word_for_ready_is_not_made_up_for_an_empty_table(site: Site, default: str) -> None:
    await site.sql(f"CREATE TABLE jobs (id integer PRIMARY KEY, status text{default})")

    guessed = await site.look("jobs")
    said = await site.look("jobs", AdoptOptions(words={StateKind.READY: ("fresh",)}))

    assert any("no word of column status says which rows are ready" in doubt for doubt in guessed.doubts)
    assert said.doubts == []


async def test_words_of_an_index_are_words_of_the_table(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        "CREATE INDEX jobs_open ON jobs (id) WHERE status = 'QUEUED'",
    )

    found = await site.look("jobs")

    assert found.doubts == []
    assert found.states[StateKind.READY] == ("QUEUED",)
    assert found.states[StateKind.RUNNING] == ("PROCESSING",)


async def test_a_word_that_new_rows_begin_with_is_not_taken_for_one_in_progress(site: Site) -> None:
    await site.sql(
        "CREATE TABLE dunning (id integer PRIMARY KEY, status text DEFAULT 'active')",
        "INSERT INTO dunning VALUES (1, 'active'), (2, 'resolved'), (3, 'pending')",
    )

    guessed = await site.look("dunning")
    said = await site.look("dunning", AdoptOptions(words={StateKind.READY: ("active",)}))

    assert any("new rows begin as 'active', which is taken for running" in doubt for doubt in guessed.doubts)
    assert said.doubts == []


async def test_words_can_be_left_alone_on_purpose(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        "INSERT INTO jobs VALUES (1, 'pending'), (2, 'paused'), (3, 'expired'), (4, 'done'), (5, 'new')",
    )

    guessed = await site.look("jobs")
    found = await site.adopt("jobs", AdoptOptions(others=("paused", "expired", "new")))

    assert len([doubt for doubt in guessed.doubts if "--other" in doubt]) == 2
    assert found.doubts == []
    assert found.unknown == {}
    assert site.declared(found)["jobs"].vocabulary.others == ("paused", "expired", "new")


async def test_a_state_that_can_not_be_written_is_a_doubt(site: Site) -> None:
    await site.sql(
        "CREATE TABLE parcels (id integer PRIMARY KEY, sent_at timestamp, failed boolean, "
        "status text GENERATED ALWAYS AS (CASE WHEN failed THEN 'failed' ELSE 'pending' END) STORED)",
        "INSERT INTO parcels (id, failed) VALUES (1, false), (2, true)",
        "CREATE TABLE letters (id integer PRIMARY KEY, sent_at timestamp, status boolean)",
    )
    where = {StateKind.DONE: "sent_at IS NOT NULL", StateKind.DEAD: "status = 'failed'"}

    computed, boolean = await site.look("parcels"), await site.look("letters")
    said = await site.adopt("parcels", AdoptOptions(where=where))

    assert any("status is called a state, but it is computed by the database" in doubt for doubt in computed.doubts)
    assert any("status is called a state, but it is BOOLEAN" in doubt for doubt in boolean.doubts)
    assert said.doubts == []
    assert dict(await site.rows("SELECT id, state FROM parcels")) == {1: "ready", 2: "dead"}


async def test_a_state_that_is_part_of_the_key_is_a_doubt(site: Site) -> None:
    await site.sql("CREATE TABLE jobs (id integer, status text, sent_at timestamp, PRIMARY KEY (id, status))")

    found = await site.look("jobs")

    assert any("status is called a state, but it is part of the key" in doubt for doubt in found.doubts)


async def test_a_condition_that_ties_the_state_to_other_columns_is_told(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text DEFAULT 'new', ended timestamp, "
        "CONSTRAINT tied CHECK ((status = 'done') = (ended IS NOT NULL)), CHECK (status IN ('new', 'done')))",
    )

    found = await site.look("jobs")

    [note] = [note for note in found.notes if "ties" in note]
    assert note.startswith("constraint tied ties status to ended")


async def test_a_state_that_refers_to_a_table_of_states(site: Site) -> None:
    await site.sql(
        "CREATE TABLE words (word varchar(20) PRIMARY KEY)",
        "INSERT INTO words VALUES ('pending'), ('done'), ('failed')",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status varchar(20) REFERENCES words (word))",
        "INSERT INTO jobs VALUES (1, 'pending'), (2, 'done'), (3, 'failed')",
    )

    refused = await site.look("jobs")
    await site.sql("INSERT INTO words VALUES ('processing')")
    found = await site.adopt("jobs")

    assert refused.columns["state"] == "status"
    [obstacle] = refused.plan.obstacles
    assert "refers to words.word, which does not have processing" in obstacle
    assert found.doubts == []


async def test_a_number_that_refers_to_a_table_of_states_is_not_passed_over(site: Site) -> None:
    await site.sql(
        "CREATE TABLE words (id integer PRIMARY KEY, word text)",
        "INSERT INTO words VALUES (1, 'queued'), (2, 'executing'), (3, 'ok'), (4, 'failed')",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status_id integer REFERENCES words (id), processed_at timestamp)",
        "INSERT INTO jobs VALUES (1, 1, NULL), (2, 4, NULL)",
    )
    words = {StateKind.READY: ("1",), StateKind.RUNNING: ("2",), StateKind.DONE: ("3",), StateKind.DEAD: ("4",)}

    guessed = await site.look("jobs")
    found = await site.adopt("jobs", AdoptOptions(state="status_id", words=words))

    assert any("--state-column status_id" in doubt for doubt in guessed.doubts)
    assert found.doubts == []
    assert (await site.drain_declared(found)).done == 1


async def test_long_texts_are_not_counted_in_search_of_states(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    whole = table_facts.words_in

    def counted(connection: object, about: object, column: sa.Column[str]) -> table_facts.ColumnValues:
        looked.append(column.name)
        return whole(connection, about, column)  # type: ignore[arg-type]

    monkeypatch.setattr("rowmill.adopt.guess.words_in", counted)
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text, body text, kind text)",
        f"INSERT INTO jobs VALUES (1, 'pending', '{'x' * 200}', 'a')",
    )

    found = await site.look("jobs")

    assert found.columns["state"] == "status"
    assert "body" not in looked
    assert "kind" in looked


async def test_the_state_of_an_address_is_not_taken_for_one_that_was_added(site: Site) -> None:
    await site.sql(
        "CREATE TABLE orders (id integer PRIMARY KEY, state char(2), status text, started_at timestamp NOT NULL)",
        "INSERT INTO orders VALUES (1, 'CA', 'NEW', '2026-01-01'), (2, 'NY', 'DONE', '2026-01-01')",
    )

    found = await site.adopt("orders")  # looks again
    again = await site.look("orders")

    assert found.columns == again.columns
    assert again.columns["state"] == "status"


async def test_a_state_of_fixed_length_is_read_without_its_blanks(site: Site) -> None:
    await site.sql(
        "CREATE TABLE jobs (id integer PRIMARY KEY, status char(10) DEFAULT 'PENDING')",
        "INSERT INTO jobs VALUES (1, 'PENDING'), (2, 'DONE'), (3, 'FAILED')",
    )

    found = await site.adopt("jobs")

    assert found.doubts == []
    assert found.states[StateKind.READY] == ("PENDING",)
    assert (await site.drain_declared(found)).done == 1
