"""The row of a limit and a key on SQLite."""

import sqlite3
from dataclasses import dataclass

COLUMNS = (
    "seen", "width", "head", "counts", "turn", "later", "later_from", "held", "off", "parked_until",
    "failures", "pause", "open_until", "probe_until",
)  # fmt: skip


@dataclass(slots=True)
class Row:
    """The row of a limit and a key."""

    seen: float
    width: float
    head: int
    counts: str
    turn: float
    later: float
    later_from: float
    held: float
    off: int
    parked_until: float
    failures: int
    pause: float
    open_until: float
    probe_until: float


def read(connection: sqlite3.Connection, name: str, key: str) -> Row:
    found = look(connection, name, key)
    if found is None:
        connection.execute("INSERT INTO rowmill_limiter (name, key) VALUES (?, ?)", (name, key))
        found = look(connection, name, key)
    assert found is not None
    return found


def look(connection: sqlite3.Connection, name: str, key: str) -> Row | None:
    columns = ", ".join(COLUMNS)
    found = connection.execute(
        f"SELECT {columns} FROM rowmill_limiter WHERE name = ? AND key = ?", (name, key)
    ).fetchone()
    return None if found is None else Row(*found)


def write(connection: sqlite3.Connection, name: str, key: str, row: Row) -> None:
    sets = ", ".join(f"{column} = ?" for column in COLUMNS)
    values = [getattr(row, column) for column in COLUMNS]
    connection.execute(f"UPDATE rowmill_limiter SET {sets} WHERE name = ? AND key = ?", (*values, name, key))
