"""The size of a big table and the share of each state in it, without reading all of it."""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from rowmill.store.lexicon import Lexicon
from rowmill.store.terms import Terms

SMALL_BYTES = 64 * 1024 * 1024
"""A table of this size is counted in a fraction of a second."""
SMALL_ROWS = 1_000_000
"""The same on SQLite, by the span of its row numbers."""
PAGE = 8192
SAMPLE_PAGES = 1000
PROBES = 20_000
ENOUGH = 1000
"""Hits among the probes from which shares can be told."""


def is_small(connection: Connection, terms: Terms) -> bool:
    """Can the table be counted from end to end?"""
    if connection.dialect.name == "postgresql":
        return _bytes(connection, terms) <= SMALL_BYTES
    span = _span(connection, terms)
    return span is None or span[1] <= SMALL_ROWS


def by_state(connection: Connection, terms: Terms) -> dict[Any, int] | None:
    """About how many rows are in each state, by its raw value; None where it can't be told."""
    if connection.dialect.name == "postgresql":
        found = _by_statistics(connection, terms)
        if found is not None:
            return found
    states = sampled(connection, terms, terms.state)
    plain = Lexicon(terms).plain
    return None if states is None else {plain(raw): rows for raw, rows in states.items()}


def sampled(connection: Connection, terms: Terms, wanted: str) -> dict[Any, int] | None:
    """About how many rows have each value of an SQL expression, from a random sample; None where it can't be told."""
    if connection.dialect.name == "postgresql":
        return _by_sample(connection, terms, wanted)
    return _by_probes(connection, terms, wanted)


def _bytes(connection: Connection, terms: Terms) -> int:
    # A partitioned table has no rows of its own: its leaves have.
    found = connection.exec_driver_sql(
        "SELECT coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(t) WHERE isleaf), "
        f"pg_relation_size(t)) FROM to_regclass({terms.text(terms.table)}) AS t"
    ).scalar()
    return int(found or 0)


def _by_statistics(connection: Connection, terms: Terms) -> dict[Any, int] | None:
    """From what ANALYZE found; None when it did not look, or most rows changed since."""
    queue = terms.queue
    row = connection.exec_driver_sql(
        "SELECT c.reltuples, c.relpages, s.null_frac, s.most_common_vals::text::text[] AS common, "
        "s.most_common_freqs AS shares "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname "
        f"WHERE c.oid = to_regclass({terms.text(terms.table)}) AND NOT s.inherited AND c.relkind = 'r' "
        f"AND s.attname = {terms.text(queue.columns['state'].name)} AND c.reltuples > 0 AND c.relpages > 0 "
        "AND pg_stat_get_mod_since_analyze(c.oid) < c.reltuples / 10"
    ).first()
    if row is None or row.common is None:
        return None
    total = row.reltuples / row.relpages * (_bytes(connection, terms) / PAGE)
    lexicon = Lexicon(terms)
    raw_of = {str(raw): raw for raw in map(lexicon.raw, lexicon.words)}
    common = map(lexicon.plain, row.common)
    found: dict[Any, int] = {
        raw_of.get(text, text): round(total * share) for text, share in zip(common, row.shares, strict=True)
    }
    if row.null_frac:
        found[None] = round(total * row.null_frac)
    return found


def _by_sample(connection: Connection, terms: Terms, wanted: str) -> dict[Any, int]:
    """From the rows of some pages, chosen at random."""
    percent = min(100.0, 100.0 * SAMPLE_PAGES * PAGE / max(_bytes(connection, terms), 1))
    rows = connection.exec_driver_sql(
        f"SELECT {wanted}, count(*) FROM {terms.table} TABLESAMPLE SYSTEM ({percent!r}) GROUP BY 1"
    )
    return {value: round(count * 100.0 / percent) for value, count in rows}


def _by_probes(connection: Connection, terms: Terms, wanted: str) -> dict[Any, int] | None:
    """SQLite: from the rows at some row numbers, chosen at random. None where few of the numbers are taken."""
    span = _span(connection, terms)
    if span is None:
        return None
    first, length = span
    rows = connection.exec_driver_sql(
        f"WITH RECURSIVE probe(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM probe LIMIT {PROBES}), "
        f"spot(at) AS MATERIALIZED (SELECT {first} + abs(random() % {length}) FROM probe) "
        f"SELECT {wanted}, count(*) FROM spot JOIN {terms.table} ON {terms.table}._rowid_ = spot.at GROUP BY 1"
    ).all()
    if sum(count for _, count in rows) < ENOUGH:
        return None
    return {value: round(count * length / PROBES) for value, count in rows}


def _span(connection: Connection, terms: Terms) -> tuple[int, int] | None:
    """The first row number and how far they reach; None for a table without them."""
    try:
        # Each by itself: together they would read the whole table.
        first, last = connection.exec_driver_sql(
            f"SELECT (SELECT min(_rowid_) FROM {terms.table}), (SELECT max(_rowid_) FROM {terms.table})"
        ).one()
    except OperationalError:
        return None
    return None if first is None else (first, last - first + 1)
