"""Dead rows by the code of their last failure, whatever their age."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from rowmill.model.errors import CODE_LENGTH
from rowmill.model.lifecycle import Kind
from rowmill.store import estimate
from rowmill.store.counts import CAP, How
from rowmill.store.index_plans import index_plans
from rowmill.store.terms import Terms

CODE = re.compile(r"[A-Za-z_][\w.:/-]*")
"""What is taken for a code in front of an error's text. The text itself may quote a row, and is never returned."""


@dataclass(frozen=True, slots=True)
class DeadRows:
    """How many rows are dead, and of what."""

    rows: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    """Rows by code, most frequent first."""
    without_code: int = 0
    """Rows whose error begins with no code: another program wrote it, or there is none."""
    count: How = How.EXACT


# served by: a scan of a small table; on a big one, the index for the retention of dead rows, or a sample
def dead_rows(connection: Connection, terms: Terms, *, cap: int = CAP) -> DeadRows:
    """Count the dead rows by code. On a big table, the newest `cap` where an index lists dead rows by age; otherwise
    the numbers are estimated from a sample, in which rare codes may be missing."""
    dead = terms.is_in(terms.queue.vocabulary.of(Kind.DEAD)) + terms.part
    code = _code(terms)
    whole = f"SELECT {code}, count(*) FROM {terms.table} WHERE {dead} GROUP BY 1"
    if estimate.is_small(connection, terms):
        return _summed(terms, _rows(connection, whole), How.EXACT)
    if Kind.DEAD in terms.queue.keep.ages():
        aged = terms.role(terms.queue.aged_by(Kind.DEAD))
        newest = f"SELECT {code} AS code FROM {terms.table} WHERE {dead} ORDER BY {aged} DESC LIMIT {int(cap) + 1}"
        with index_plans(connection):
            found = _rows(connection, f"SELECT code, count(*) FROM ({newest}) AS newest GROUP BY 1")
        return _summed(terms, found, How.CAPPED if sum(found.values()) > cap else How.EXACT)
    sampled = estimate.sampled(connection, terms, f"CASE WHEN {dead} THEN {code} END")
    if sampled is None:
        return _summed(terms, _rows(connection, whole), How.EXACT)
    return _summed(terms, {code: rows for code, rows in sampled.items() if code is not None}, How.ESTIMATED)


def _code(terms: Terms) -> str:
    """The code of a row as SQL, empty where there is none. Long text and text with blanks is cut off here, or each
    row would be a group of its own."""
    column = terms.queue.columns.get("error_code")
    if column is not None:
        return f"coalesce(substr(CAST({terms.name(column)} AS text), 1, {CODE_LENGTH}), '')"
    find = "strpos" if terms.dialect.name == "postgresql" else "instr"
    error = f"CAST({terms.role('error')} AS text)"
    first = f"substr({error}, 1, {find}({error} || ': ', ': ') - 1)"
    return f"CASE WHEN length({first}) <= {CODE_LENGTH} AND {find}({first}, ' ') = 0 THEN {first} ELSE '' END"


def _rows(connection: Connection, statement: str) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.exec_driver_sql(statement)}


def _summed(terms: Terms, found: Mapping[Any, int], count: How) -> DeadRows:
    own_column = "error_code" in terms.queue.columns
    codes: dict[str, int] = {}
    without = 0
    for code, rows in sorted(found.items(), key=lambda one: (-one[1], one[0])):
        if code and (own_column or CODE.fullmatch(code)):
            codes[code] = rows
        else:
            without += rows
    return DeadRows(sum(found.values()), codes, without, count)
