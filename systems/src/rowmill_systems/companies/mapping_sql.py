"""The statements of mappings, cached answers and requests that names go through by the batch.

A batch goes in as one text and comes back as a few: a parameter or a row for each name costs more than its lookup.
"""

from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa

from rowmill_systems.companies.models import INTERNAL, TIERS, tables_of

SEPARATOR = "\x1f"
"""Between the names of a batch on PostgreSQL. No normalised name has it."""
OPEN = "status IN ('pending', 'processing')"
"""As in the partial unique index: PostgreSQL takes the index for a conflict only if the condition is the same."""
TIER = "CASE m.match_type " + " ".join(f"WHEN '{each}' THEN {place}" for place, each in enumerate(TIERS)) + " END"
NOW = {"postgresql": "statement_timestamp()", "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')"}

FIND_MAPPED = {
    # LATERAL with OFFSET keeps the index: by its estimates, the planner would read the whole table for a big batch.
    "postgresql": """
        SELECT CAST(json_agg(n.place - 1) AS text), CAST(json_agg({tier}) AS text),
               CAST(json_agg(m.company_id) AS text), CAST(json_agg(m.confidence) AS text)
        FROM unnest(string_to_array(:names, :separator)) WITH ORDINALITY AS n(alias, place)
        CROSS JOIN LATERAL (
            SELECT match_type, company_id, confidence FROM {mappings}
            WHERE alias = n.alias AND source = '{internal}' AND company_id IS NOT NULL OFFSET 0
        ) AS m""",
    # CROSS JOIN keeps the order of the tables.
    "sqlite": """
        SELECT json_group_array(n.key), json_group_array({tier}),
               json_group_array(m.company_id), json_group_array(m.confidence)
        FROM json_each(:names) AS n CROSS JOIN {mappings} AS m
        WHERE m.alias = n.value AND m.source = '{internal}' AND m.company_id IS NOT NULL""",
}
"""Served by uq_company_mappings_alias."""

BELIEVED = "(expires_at IS NULL OR expires_at > {now})"
COUNTS = """(
    r.status <> 'done'
    OR COALESCE(r.finished_at, r.updated_at)
       > CASE WHEN r.resolved_company_id IS NULL THEN {unmatched} ELSE {matched} END
)"""
"""Requests that stand for their name: open ones, failed ones, and done ones as long as their answer is believed."""

FIND_KNOWN = {
    "postgresql": """
        SELECT n.place - 1 AS place, 0 AS kind, m.company_id, m.confidence, m.source AS word
        FROM unnest(string_to_array(:names, :separator)) WITH ORDINALITY AS n(alias, place)
        CROSS JOIN LATERAL (
            SELECT company_id, confidence, source FROM {mappings}
            WHERE alias = n.alias AND match_type = 'company_name' AND source <> '{internal}' AND {believed} OFFSET 0
        ) AS m
        UNION ALL
        SELECT n.place - 1, 1, q.resolved_company_id, q.confidence, q.status
        FROM unnest(string_to_array(:names, :separator)) WITH ORDINALITY AS n(alias, place)
        CROSS JOIN LATERAL (
            SELECT r.resolved_company_id, r.confidence, r.status FROM {requests} AS r
            WHERE r.normalized_name = n.alias AND {counts} ORDER BY r.id + 0 DESC LIMIT 1
        ) AS q""",
    "sqlite": """
        SELECT n.key AS place, 0 AS kind, m.company_id, m.confidence, m.source AS word
        FROM json_each(:names) AS n CROSS JOIN {mappings} AS m
        WHERE m.alias = n.value AND m.match_type = 'company_name' AND m.source <> '{internal}' AND {believed}
        UNION ALL
        SELECT n.key, 1, r.resolved_company_id, r.confidence, r.status
        FROM json_each(:names) AS n CROSS JOIN {requests} AS r
        WHERE r.id = (
            SELECT r.id FROM {requests} AS r
            WHERE r.normalized_name = n.value AND {counts} ORDER BY r.id + 0 DESC LIMIT 1
        )""",
}
"""Served by uq_company_mappings_alias and ix_enrichment_requests_name. `id + 0`: ordered by the bare id, PostgreSQL may
walk the primary key backwards through the whole table."""

WANTED = {
    "postgresql": """
        SELECT value ->> 0 AS normalized_name, value ->> 1 AS raw_name, value ->> 2 AS temp_id
        FROM json_array_elements(CAST(:rows AS json)) AS given(value)""",
    "sqlite": """
        SELECT json_extract(value, '$[0]') AS normalized_name, json_extract(value, '$[1]') AS raw_name,
               json_extract(value, '$[2]') AS temp_id
        FROM json_each(:rows)""",
}
INSERT_REQUESTS = """
    INSERT INTO {requests} (normalized_name, raw_name, temp_id)
    SELECT w.normalized_name, w.raw_name, w.temp_id FROM {source} AS w
    WHERE NOT EXISTS (SELECT 1 FROM {requests} AS r WHERE r.normalized_name = w.normalized_name AND {standing})
    ORDER BY w.normalized_name
    ON CONFLICT (normalized_name) WHERE {open} DO NOTHING
    RETURNING normalized_name"""
"""In the order of names: two transactions that insert the same names wait for each other rather than deadlock."""
REQUEST_STATUS = """(
    SELECT r.status FROM {requests} AS r WHERE r.normalized_name = w.normalized_name ORDER BY r.id + 0 DESC LIMIT 1
)"""
READ_REQUESTS = "SELECT w.normalized_name, {status} FROM ({wanted}) AS w"
PLACE_REQUESTS = """
    WITH wanted AS MATERIALIZED ({wanted}), placed AS ({insert})
    SELECT w.normalized_name, CASE WHEN p.normalized_name IS NULL THEN COALESCE({status}, 'pending') ELSE 'new' END
    FROM wanted AS w LEFT JOIN placed AS p ON p.normalized_name = w.normalized_name"""
"""PostgreSQL: the insert, and what the other names have, in one round trip. A request without status was committed by
somebody else after the statement began."""
INSERT_ANSWERED = """
    INSERT INTO {requests} (normalized_name, raw_name, temp_id, status, next_retry_at, outcome, finished_at)
    SELECT w.normalized_name, w.raw_name, w.temp_id, 'done', NULL, :code, {now} FROM ({wanted}) AS w
    WHERE NOT EXISTS (SELECT 1 FROM {requests} AS r WHERE r.normalized_name = w.normalized_name)"""
COUNT_RUNGS = {
    "postgresql": """
        INSERT INTO {rung_counts} AS kept (day, rung, writer, names)
        SELECT CURRENT_DATE, value ->> 0, pg_backend_pid() % 64, CAST(value ->> 1 AS bigint)
        FROM json_array_elements(CAST(:rows AS json)) AS given(value) ORDER BY value ->> 0
        ON CONFLICT (day, rung, writer) DO UPDATE SET names = kept.names + excluded.names""",
    "sqlite": """
        INSERT INTO {rung_counts} AS kept (day, rung, writer, names)
        SELECT CURRENT_DATE, json_extract(value, '$[0]'), 0, json_extract(value, '$[1]') FROM json_each(:rows) WHERE 1
        ON CONFLICT (day, rung, writer) DO UPDATE SET names = kept.names + excluded.names""",
}


@dataclass(frozen=True, slots=True)
class MappingSql:
    """The statements for one database."""

    find_mapped: sa.TextClause
    find_known: sa.TextClause
    insert_requests: sa.TextClause
    """Skips names with a request that stands."""
    insert_requests_again: sa.TextClause
    """Skips names with an open request only."""
    read_requests: sa.TextClause
    """Of names that were skipped. SQLite only: PostgreSQL returns them with the insert."""
    insert_answered: sa.TextClause
    count_rungs: sa.TextClause


@cache
def mapping_sql(dialect: str) -> MappingSql:
    """Return the statements for a database."""
    tables, now, wanted = tables_of(dialect), NOW[dialect], WANTED[dialect]
    counts = COUNTS.format(matched=_ago(dialect, "cache_days"), unmatched=_ago(dialect, "no_match_days"))
    words = {
        "mappings": tables.mappings.fullname,
        "requests": tables.requests.fullname,
        "rung_counts": tables.rung_counts.fullname,
        "believed": BELIEVED.format(now=now),
        "counts": counts,
        "tier": TIER,
        "internal": INTERNAL,
        "now": now,
        "wanted": wanted,
        "open": OPEN,
    }

    def text(statement: str, **more: str) -> sa.TextClause:
        return sa.text(statement.format(**words, **more))

    def place(standing: str) -> sa.TextClause:
        if dialect == "sqlite":
            return text(INSERT_REQUESTS, source=f"({wanted})", standing=standing)
        insert = INSERT_REQUESTS.format(**words, source="wanted", standing=standing)
        return text(PLACE_REQUESTS, insert=insert, status=status)

    status = REQUEST_STATUS.format(**words)
    return MappingSql(
        find_mapped=text(FIND_MAPPED[dialect]),
        find_known=text(FIND_KNOWN[dialect]),
        insert_requests=place(counts),
        insert_requests_again=place(f"r.{OPEN}"),
        read_requests=text(READ_REQUESTS, status=status),
        insert_answered=text(INSERT_ANSWERED),
        count_rungs=text(COUNT_RUNGS[dialect]),
    )


def _ago(dialect: str, parameter: str) -> str:
    if dialect == "postgresql":
        return f"statement_timestamp() - CAST(:{parameter} AS double precision) * interval '1 day'"
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('-%f days', :{parameter}))"
