"""Checks of a table that no application declares. The meaning of columns and words is guessed.

The table has no index of Rowmill, and columns may be missing. So every query is bounded, and reads only what exists.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt import known_names
from rowmill.adopt.build import build_queue, sql_of
from rowmill.adopt.evidence import FIRST, RowEvidence
from rowmill.adopt.examine import conditions_of
from rowmill.adopt.flags import Flags, read_flags
from rowmill.adopt.guess import AdoptOptions, StateGuess, guess_states
from rowmill.adopt.plan import words_there
from rowmill.adopt.roles import guess_roles
from rowmill.adopt.table_facts import TableFacts, find_table, named_in, read_facts, samples
from rowmill.doctor.finding import AuditedQueue, DoctorFinding, FindingSeverity, Thresholds, many
from rowmill.model.errors import BadRequest
from rowmill.model.lifecycle import CLAIMABLE, StateKind
from rowmill.model.queue import Columns
from rowmill.store import expressions
from rowmill.store.clock import as_moment, as_stored
from rowmill.store.queue_sql import QueueSql

SINCE = ("started_at", "updated_at", "leased_until")
"""Roles of columns that show since when a row is in progress, best first."""
PAST = ("created_at", "updated_at", "started_at", "finished_at")
"""Roles of columns that hold times in the past."""
IDENTIFYING = frozenset({
    "dedup_key", "dedupe_key", "deduplication_key", "unique_key", "idempotency_key", "idempotence_key", "natural_key",
    "external_id", "external_ref", "source_id", "message_id", "event_id", "request_id", "job_key", "task_key",
    "content_hash", "file_hash", "checksum", "fingerprint", "sha256", "md5",
})  # fmt: skip
"""Names of columns in which two unfinished rows should not have the same value."""
SHOWN = 10


@dataclass(frozen=True, slots=True)
class TableGuess:
    """What a table was guessed to be."""

    sql: QueueSql
    facts: TableFacts
    states: StateGuess
    others: tuple[str, ...] = ()
    """Words that are ignored."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Columns in which unfinished rows should be unique, as the caller says."""
    flags: Flags | None = None
    """Conditions for states, if no column holds the state."""

    def is_in(self, *kinds: StateKind) -> str:
        """Return the condition for rows in these states."""
        if self.flags is None:
            words = words_there(self.sql, self.facts, self.sql.queue.vocabulary.all_of(frozenset(kinds)))
            return self.sql.is_in(words) if words else "1 = 0"
        conditions = self.flags.conditions
        whens = " ".join(f"WHEN ({conditions[kind].sql}) THEN '{kind}'" for kind in FIRST if kind in conditions)
        wanted = ", ".join(f"'{kind}'" for kind in sorted(kinds))
        return f"CASE {whens} END IN ({wanted})"

    @property
    def marks(self) -> list[str]:
        """Return the columns that determine the state of a row."""
        if self.flags is None:
            return [str(self.states.column)]
        said = " ".join(self.flags.where.values())
        return [column.name for column in self.facts.table.columns if named_in(said, column.name)]

    def there(self, *roles: str) -> bool:
        """Return whether the table has the columns of these roles."""
        return all(self.column(role) is not None for role in roles)

    def column(self, role: str) -> "Column[Any] | None":
        mapped = self.sql.queue.columns.get(role)
        return None if mapped is None or mapped.name not in self.facts.table.columns else mapped

    @property
    def table(self) -> str:
        return str(self.facts.table.fullname)

    @property
    def columns(self) -> dict[str, str]:
        """Return the existing columns by role."""
        return {role: column.name for role, column in self.sql.queue.columns.items() if self.there(role)}

    @property
    def words(self) -> dict[str, list[str]]:
        if self.flags is not None:
            return {str(kind): [sql] for kind, sql in self.flags.where.items()}
        return {str(kind): [str(word) for word in words] for kind, words in self.states.words.items() if words}


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """A table under audit."""

    audited: AuditedQueue
    guess: TableGuess

    @property
    def sql(self) -> QueueSql:
        return self.audited.sql

    @property
    def connection(self) -> Connection:
        return self.audited.connection

    @property
    def most(self) -> int:
        return self.audited.limits.most

    def count(self, condition: str) -> int:
        """Count rows, up to one more than the threshold."""
        some = f"SELECT 1 FROM {self.sql.table} WHERE {condition} LIMIT {self.most + 1}"
        counted = expressions.run(self.connection, f"SELECT count(*) FROM ({some}) AS found").scalar_one()
        return int(str(counted))


def guess_table(
    connection: Connection,
    name: str,
    choices: AdoptOptions,
    others: Sequence[str] = (),
    unique: Sequence[tuple[str, ...]] = (),
) -> TableGuess:
    """Guess how a table would be a queue, like `rowmill adopt` does. Raises if the table does not exist."""
    facts = read_facts(connection, find_table(connection, name))
    have = [column.name for column in facts.table.columns]
    chosen = [*choices.columns.values(), *(name for names in unique for name in names)]
    strangers = [name for name in (choices.state, *chosen) if name and name not in have]
    if strangers:
        listed = ", ".join(have)
        raise BadRequest(f"table {facts.table.name} has no column {', '.join(strangers)}. It has: {listed}")
    parts = (*Columns.__slots__, "priority")
    if unknown := [role for role in choices.columns if role not in parts]:
        raise BadRequest(f"there is no part {', '.join(unknown)} for a column. There are: {', '.join(parts)}")
    choices = replace(choices, others=tuple(others))
    states = guess_states(connection, facts, choices)
    done = [known_names.plain(str(word)) for word in states.words[StateKind.DONE]]
    named = {role: column for role, column in choices.columns.items() if role != "state"}
    flags = read_flags(connection, facts, choices) if states.column is None else None
    evidence = RowEvidence(connection, facts, conditions_of(states) if flags is None else flags.conditions)
    roles = guess_roles(connection, facts, states.column, done, replace(choices, columns=named), evidence)
    roles.names |= {role: column for role, column in named.items() if role not in roles.names}
    shape = facts
    if not facts.table.primary_key.columns:
        table = facts.table.to_metadata(sa.MetaData())
        table.append_constraint(sa.PrimaryKeyConstraint(next(iter(table.columns))))
        shape = TableFacts(table, facts.rows, facts.exact, is_table=facts.is_table)
    queue, _, _ = build_queue(shape, states, roles, choices, connection.dialect)
    return TableGuess(sql_of(queue, connection.dialect), facts, states, tuple(others), tuple(unique), flags)


def shape(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Check whether it can become a queue, and whether the guess is certain."""
    guess, audited = subject.guess, subject.audited
    if not guess.facts.is_table:
        yield audited.finding(
            FindingSeverity.ERROR,
            "not_a_table",
            f"{guess.table} is no table, but a view or the like",
            "name the table itself",
        )
    elif not guess.facts.table.primary_key.columns:
        yield audited.finding(
            FindingSeverity.ERROR,
            "key_missing",
            f"table {guess.table} has no primary key: a row can't be told from another, nor be locked alone",
            f"add one: ALTER TABLE {subject.sql.table} ADD COLUMN ... PRIMARY KEY",
        )
    for doubt in guess.states.doubts:
        yield audited.finding(
            FindingSeverity.WARNING,
            "guess_doubtful",
            doubt.partition(":")[0] + ": what is said below rests on a guess",
            "say what the words mean: --ready, --running, --done, --dead, --waiting, --cancelled WORD",
        )
    missing = [role for role in ("lease", "leased_until") if not guess.there(role)]
    if missing:
        yield audited.finding(
            FindingSeverity.INFO,
            "no_lease_columns",
            f"nothing on a row says who works on it, and until when ({' and '.join(missing)} are missing): "
            "after a crash nobody can tell a row in progress from an abandoned one",
            f"rowmill adopt {audited.typed} shows the migration",
        )


def words(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find rows in an unknown state: no worker would ever claim them."""
    guess, audited, sql = subject.guess, subject.audited, subject.sql
    if guess.states.column is None:
        return
    about = "" if guess.states.seen_all else " (of a sample)"
    nothing = guess.states.unknown.get(None, 0)
    ready = sql.word(sql.queue.steps[0].ready[0])
    if nothing:
        yield audited.finding(
            FindingSeverity.WARNING,
            "state_null",
            f"{many(nothing, 10**9)} without a state{about}: no claim ever takes them",
            f"if they should be worked on: UPDATE {sql.table} SET {sql.state} = {ready} "
            f"WHERE {sql.state} IS NULL; then make the column NOT NULL",
        )
    strange = {
        str(word): count
        for word, count in guess.states.unknown.items()
        if word is not None and str(word) not in guess.others
    }
    if strange:
        listed = ", ".join(f"{word[:40]!r} ({count})" for word, count in list(strange.items())[:SHOWN])
        yield audited.finding(
            FindingSeverity.WARNING,
            "unknown_words",
            f"words that mean nothing to a queue{about}: {listed}. No claim ever takes such rows",
            "say what they mean (--ready WORD, --waiting WORD ...), or that they are to be left alone (--other WORD; "
            "States(others=...) in the declaration); or mend a spelling with an UPDATE",
        )


def stuck(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find rows that have been in progress for long."""
    guess, audited, sql = subject.guess, subject.audited, subject.sql
    running = guess.is_in(StateKind.RUNNING)
    since = next((column for role in SINCE if (column := guess.column(role)) is not None), None)
    if since is None:
        rows = subject.count(running)
        if rows:
            yield audited.finding(
                FindingSeverity.WARNING,
                "stuck_rows",
                f"{many(rows, subject.most)} in progress, and no column says since when: those of a worker that "
                "crashed stay so for ever",
                f"rowmill adopt {audited.typed} gives rows a lease, and workers give back those of a dead one",
            )
        return
    limit = audited.limits.stuck
    old = f"{running} AND ({sql.name(since)} IS NULL OR {sql.name(since)} < {sql.moment(since, repr(-limit))})"
    found = subject.connection.scalars(
        sa.select(as_stored(since, subject.connection.dialect.name))
        .where(sa.literal_column(old))
        .limit(subject.most + 1)
    ).all()
    if found:
        times = [at for value in found if (at := as_moment(value, sql.queue.epoch)) is not None]
        oldest = f", the oldest since {min(times):%Y-%m-%d %H:%M:%S} UTC" if times else ""
        yield audited.finding(
            FindingSeverity.WARNING,
            "stuck_rows",
            f"{many(len(found), subject.most)} in progress for more than {limit / 60:g} min by {since.name}{oldest}: "
            "most likely nobody works on them any more",
            f"see that nothing works on them, then: {_give_back(subject, old)}. For good: "
            f"rowmill adopt {audited.typed}",
        )


def _give_back(subject: AuditedTable, which: str) -> str:
    """Return the statement that makes rows in progress ready again."""
    flags, sql = subject.guess.flags, subject.sql
    if flags is not None:
        return f"clear what says that they are in progress ({flags.where[StateKind.RUNNING]})"
    ready = sql.word(sql.queue.steps[0].ready[0])
    return f"UPDATE {sql.table} SET {sql.state} = {ready} WHERE {which}"


def attempts(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find ready rows that have no attempts left."""
    guess, audited, sql = subject.guess, subject.audited, subject.sql
    if not guess.there("attempts"):
        return
    own, step = guess.column("max_attempts"), sql.queue.steps[0]
    used_up = f"{guess.is_in(*CLAIMABLE)} AND {sql.used_up(step)}"
    rows = subject.count(used_up)
    if rows:
        limit = f"{step.retry.attempts} attempts" if own is None else f"their {own.name}"
        yield audited.finding(
            FindingSeverity.WARNING,
            "attempts_used_up",
            f"{many(rows, subject.most)} ready that have had {limit} or more: as a queue, their next claim buries them",
            f"if they should run: UPDATE {sql.table} SET {sql.attempts} = 0 WHERE {used_up}; "
            "or declare a higher limit: Retry(attempts=...)",
        )


def times(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find past events with times in the future, and ready rows whose time never comes."""
    guess, audited, sql = subject.guess, subject.audited, subject.sql
    ahead = audited.limits.ahead
    for role in PAST:
        column = guess.column(role)
        if column is None:
            continue
        rows = subject.count(f"{sql.name(column)} > {sql.moment(column, repr(ahead))}")
        if rows:
            yield audited.finding(
                FindingSeverity.WARNING,
                "future_times",
                f"{many(rows, subject.most)} whose {column.name} lies more than {ahead:g} s in the future: the clock "
                "of the writer is wrong, or it writes local time where UTC is meant",
                f"let the database write it ({sql.moment(column)}), or see to the clock and time zone of the writer",
            )
    available = guess.column("available_at")
    if available is not None:
        far = f"{guess.is_in(*CLAIMABLE)} AND {sql.available_at} > {sql.moment(available, repr(audited.limits.far))}"
        rows = subject.count(far)
        if rows:
            yield audited.finding(
                FindingSeverity.WARNING,
                "far_future",
                f"{many(rows, subject.most)} ready, but not before more than a year from now by {available.name}: "
                "nobody takes them in our time",
                "see who writes such times: milliseconds where seconds are meant, or 'infinity'. To take them now: "
                f"UPDATE {sql.table} SET {sql.available_at} = {sql.moment(available)} WHERE {far}",
            )


def duplicates(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find duplicate unfinished rows, by columns that the caller names or whose name identifies a subject."""
    guess = subject.guess
    table, keys = guess.facts.table, guess.facts.table.primary_key.columns
    named = guess.unique or tuple(
        (column.name,)
        for column in table.columns
        if known_names.plain(column.name) in IDENTIFYING and column.name not in keys
    )
    for names in named:
        yield from _duplicates(subject, names)


def _duplicates(subject: AuditedTable, names: Sequence[str]) -> Iterator[DoctorFinding]:
    guess, sql = subject.guess, subject.sql
    columns = [guess.facts.table.columns[name] for name in names]
    is_open = guess.is_in(*CLAIMABLE, StateKind.RUNNING)
    given = " AND ".join(f"{sql.name(column)} IS NOT NULL" for column in columns)
    listed = ", ".join(sql.name(column) for column in columns)
    source, about = sql.table, ""
    if not guess.facts.exact:
        last = samples(guess.facts.table, list(guess.facts.table.columns))[-1]
        newest = last.compile(dialect=sql.dialect, compile_kwargs={"literal_binds": True})
        source, about = f"({newest}) AS newest", " (of a sample)"
    groups = f"SELECT count(*) AS n FROM {source} WHERE {is_open} AND {given} GROUP BY {listed} HAVING count(*) > 1"
    found: Any = expressions.run(subject.connection, f"SELECT count(*), sum(n) FROM ({groups}) AS doubles").one()
    if found[0]:
        name = sql.quote(f"{guess.facts.table.name}_one_open_{'_'.join(names)}"[:60])
        yield subject.audited.finding(
            FindingSeverity.WARNING,
            "duplicates",
            f"{int(found[1])} unfinished rows share their {' and '.join(names)} with another{about} "
            f"({int(found[0])} different values): the same work may be done twice",
            f"finish or delete all but one of each; then forbid it: CREATE UNIQUE INDEX {name} ON {sql.table} "
            f"({listed}) WHERE {is_open}",
        )


def claim_index(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Check for an index that finds ready rows."""
    guess, audited = subject.guess, subject.audited
    if not guess.marks or guess.facts.rows < audited.limits.scanned:
        return
    orders = [column.name for role in ("available_at", "leased_until") if (column := guess.column(role)) is not None]
    leading = guess.marks if guess.flags is None else [*guess.marks, *orders]
    if any(index["column_names"][:1] == [name] for index in guess.facts.indexes for name in leading):
        return
    if any(guess.facts.index_conditions(name) for name in guess.marks):
        return
    yield audited.finding(
        FindingSeverity.WARNING,
        "claim_scans",
        f"no index leads to rows by {' or '.join(guess.marks)}: every look for ready ones reads the whole table, "
        f"{'' if guess.facts.exact else 'about '}{guess.facts.rows:,} rows{_scans(subject)}",
        f"rowmill adopt {audited.typed} makes one over the ready rows alone, which stays small",
    )


def _scans(subject: AuditedTable) -> str:
    """Return how often the table was scanned sequentially, from PostgreSQL's statistics."""
    if not subject.audited.postgres:
        return ""
    reads = subject.connection.scalar(
        sa.text("SELECT seq_scan FROM pg_stat_all_tables WHERE relid = to_regclass(:name)"),
        {"name": subject.sql.table},
    )
    return f". It was read so {reads:,} times since its statistics began" if reads else ""


DEAD_ROWS = """
SELECT n_live_tup AS live, n_dead_tup AS dead, greatest(last_vacuum, last_autovacuum) AS vacuumed
FROM pg_stat_all_tables WHERE relid = to_regclass(:name)
"""


def dead_tuples(subject: AuditedTable) -> Iterator[DoctorFinding]:
    """Find dead row versions that were not cleaned up. PostgreSQL only."""
    audited, sql = subject.audited, subject.sql
    if not audited.postgres:
        return
    row = subject.connection.execute(sa.text(DEAD_ROWS), {"name": sql.table}).first()
    if row is None or row.dead < audited.limits.dead_tuples or row.dead < row.live * audited.limits.dead_share:
        return
    last = "never" if row.vacuumed is None else f"last at {row.vacuumed:%Y-%m-%d %H:%M} UTC"
    yield audited.finding(
        FindingSeverity.WARNING,
        "dead_tuples",
        f"{row.dead:,} dead versions of rows beside {row.live:,} living ones (vacuumed {last}): every look at the "
        "table and its indexes walks over them",
        f"VACUUM (ANALYZE) {sql.table}; then let it be cleaned sooner: ALTER TABLE {sql.table} SET "
        "(autovacuum_vacuum_scale_factor = 0.01). If they stay, an old transaction holds them",
    )


def clock(connection: Connection, limits: Thresholds, now: Callable[[], datetime]) -> Iterator[DoctorFinding]:
    """Compare the clocks of the server and of this machine. SQLite uses this machine's clock."""
    if connection.dialect.name != "postgresql":
        return
    before = now()
    there = as_moment(connection.scalar(sa.text("SELECT clock_timestamp()")))
    after = now()
    if there is None:
        return
    # Somewhere between the two it was read: only what lies outside is a difference.
    ahead = max((there - after).total_seconds(), (before - there).total_seconds())
    if ahead > limits.skew:
        way = "ahead of" if there > after else "behind"
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "clock_skew",
            f"the database's clock is {ahead:.0f} s {way} that of this machine: code that writes times of its own, or "
            "compares with them, takes rows too early or too late",
            "synchronise both (NTP), and let the database's clock decide: now() in SQL, not in code",
        )


CHECKS: tuple[Callable[[AuditedTable], Iterable[DoctorFinding]], ...] = (
    shape, words, stuck, attempts, times, duplicates, claim_index, dead_tuples,
)  # fmt: skip
