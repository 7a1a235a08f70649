"""Queues as teams write them by hand: their tables, with rows in every state."""

from dataclasses import dataclass, field

from rowmill.adopt import AdoptOptions
from rowmill.model.lifecycle import StateKind


@dataclass(frozen=True)
class Handmade:
    """One table. `rows` are (word, how many); `insert` makes one row of key {n} in state {word}."""

    name: str
    table: str
    postgres: tuple[str, ...]
    sqlite: tuple[str, ...]
    insert: str
    rows: tuple[tuple[str, int], ...]
    state: str
    """The name of the column, as it is written in SQL."""
    choices: AdoptOptions = field(default_factory=AdoptOptions)
    columns: dict[str, str] = field(default_factory=dict)
    """What must be guessed, at least."""
    ready: str = "'pending'"
    running: str = "'processing'"
    done: str = "'done'"

    def inserts(self) -> list[str]:
        words = [word for word, count in self.rows for _ in range(count)]
        return [self.insert.format(n=n, word=word, hex=f"{n:012x}") for n, word in enumerate(words, start=1)]


FOUR = (("'pending'", 5), ("'processing'", 3), ("'done'", 4), ("'failed'", 2))

PLAIN = Handmade(
    "plain",
    "enrichment_requests",
    (
        "CREATE TABLE enrichment_requests (id serial PRIMARY KEY, raw_name text NOT NULL, "
        "status varchar(20) NOT NULL DEFAULT 'pending' "
        "CHECK (status IN ('pending', 'processing', 'done', 'failed')), "
        "attempts integer NOT NULL DEFAULT 0, next_retry_at timestamptz, last_error varchar(200), "
        "created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now())",
    ),
    (
        "CREATE TABLE enrichment_requests (id INTEGER PRIMARY KEY AUTOINCREMENT, raw_name TEXT NOT NULL, "
        "status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'failed')), "
        "attempts INTEGER NOT NULL DEFAULT 0, next_retry_at DATETIME, last_error TEXT, "
        "created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, "
        "updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    ),
    "INSERT INTO enrichment_requests (id, raw_name, status) VALUES ({n}, 'name', {word})",
    FOUR,
    "status",
    columns={"state": "status", "attempts": "attempts", "available_at": "next_retry_at", "error": "last_error",
             "created_at": "created_at", "updated_at": "updated_at"},
)  # fmt: skip

CODES = Handmade(
    "integer codes",
    "jobs",
    (
        "CREATE TABLE jobs (id uuid PRIMARY KEY, status smallint NOT NULL DEFAULT 0, prio integer, retries integer, "
        "run_at bigint, error_message text, created_at bigint NOT NULL)",
    ),
    (
        "CREATE TABLE jobs (id VARCHAR(36) PRIMARY KEY, status INTEGER NOT NULL DEFAULT 0, prio INTEGER, "
        "retries INTEGER, run_at INTEGER, error_message TEXT, created_at INTEGER NOT NULL)",
    ),
    "INSERT INTO jobs (id, status, prio, created_at) "
    "VALUES ('00000000-0000-4000-8000-{hex}', {word}, {n} % 3, 1700000000000)",
    (("0", 5), ("1", 3), ("2", 4), ("9", 2)),
    "status",
    AdoptOptions(
        words={StateKind.READY: ("0",), StateKind.RUNNING: ("1",), StateKind.DONE: ("2",), StateKind.DEAD: ("9",)}
    ),
    {"state": "status", "attempts": "retries", "available_at": "run_at", "error": "error_message", "priority": "prio"},
    "0",
    "1",
    "2",
)  # fmt: skip

MIXED_CASE = Handmade(
    "names that need quotes",
    "Document Intake",
    (
        'CREATE TABLE "Document Intake" ("Tenant" integer, "No." integer, "processingStatus" varchar(12) NOT NULL, '
        '"processingAttempts" integer, "processingError" text NOT NULL DEFAULT \'\', "processedAt" timestamp, '
        '"order" text, PRIMARY KEY ("Tenant", "No."))',
    ),
    (
        'CREATE TABLE "Document Intake" ("Tenant" INTEGER, "No." INTEGER, "processingStatus" VARCHAR(12) NOT NULL, '
        '"processingAttempts" INTEGER, "processingError" TEXT NOT NULL DEFAULT \'\', "processedAt" DATETIME, '
        '"order" TEXT, PRIMARY KEY ("Tenant", "No."))',
    ),
    'INSERT INTO "Document Intake" ("Tenant", "No.", "processingStatus") VALUES (7, {n}, {word})',
    (("'QUEUED'", 5), ("'PROCESSING'", 3), ("'COMPLETED'", 4), ("'FAILED'", 2)),
    '"processingStatus"',
    columns={"state": "processingStatus", "attempts": "processingAttempts", "finished_at": "processedAt"},
    ready="'QUEUED'",
    running="'PROCESSING'",
    done="'COMPLETED'",
)

TWO_WORDS = Handmade(
    "two words for running, two for done",
    "tasks",
    (
        "CREATE TYPE task_state AS ENUM ('new', 'in_progress', 'processing', 'ok', 'success', 'error', 'cancelled')",
        "CREATE TABLE tasks (id bigint PRIMARY KEY, state task_state DEFAULT 'new', tries integer, "
        "locked_until timestamptz)",
    ),
    ("CREATE TABLE tasks (id BIGINT PRIMARY KEY, state TEXT DEFAULT 'new', tries INTEGER, locked_until DATETIME)",),
    "INSERT INTO tasks (id, state, locked_until) VALUES ({n} + 5000000000, {word}, '2020-01-01 00:00:00')",
    (("'new'", 5), ("'processing'", 3), ("'in_progress'", 1), ("'ok'", 4), ("'success'", 1), ("'error'", 2)),
    "state",
    columns={"state": "state", "attempts": "tries", "leased_until": "locked_until"},
    ready="'new'",
    done="'ok'",
)

OUTBOX = Handmade(
    "no state at all",
    "outbox",
    (
        "CREATE TABLE outbox (id bigserial PRIMARY KEY, event_type text, payload jsonb, "
        "created_at timestamptz DEFAULT now(), processed_at timestamptz, attempts integer DEFAULT 0, last_error text)",
    ),
    (
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, event_type TEXT, payload TEXT, created_at DATETIME, "
        "processed_at DATETIME, attempts INTEGER DEFAULT 0, last_error TEXT)",
    ),
    "INSERT INTO outbox (id, processed_at) VALUES ({n}, {word})",
    (("NULL", 5), ("'2026-01-01 00:00:00'", 4)),
    "state",
    columns={"finished_at": "processed_at", "attempts": "attempts", "error": "last_error"},
    ready="'ready'",
    running="'running'",
)

HANDMADE = (PLAIN, CODES, MIXED_CASE, TWO_WORDS, OUTBOX)
