"""Search a knowledge base in a file or in memory."""

import heapq
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Any

from rowmill_systems.entities.kb import keys
from rowmill_systems.entities.kb.closeness import closeness
from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.entities.kb.format import INITIALS, KEY, MAKE_ONE, NAME, bits, check
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.kb.writing import write_checked
from rowmill_systems.parts.names.types import EntityType

SHIPPED = "slice.jsonl"
_FARTHEST = 0.6
"""Names less similar than this do not match."""
_PARTS = 6
_COMPARED = 150
"""Names that share the most parts, each of which is compared."""
_READ = 2000


def open_knowledge_base(path: Path | None = None) -> "SqliteKnowledgeBase":
    """Open the knowledge base in this file; without a file, the one that ships."""
    return SqliteKnowledgeBase(_shipped() if path is None else _opened(path))


class SqliteKnowledgeBase:
    """A knowledge base in SQLite. Threads share one connection: a search holds it for a few milliseconds."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = Lock()
        self.title: str
        self._things: int
        self.title, self._things = self._rows("SELECT title, things FROM about")[0]

    def search(self, name: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        asked = keys.cleaned(name)
        if not asked or most < 1:
            return []
        wanted = bits((type,)) if type is not None else 0
        found: dict[int, None] = {}
        key = keys.key(asked)
        for way, text in ((NAME, asked), (KEY, key), (INITIALS, key)):
            found |= dict.fromkeys(self._called(text, way, wanted, most))
        if not found and (before := keys.without_addition(name)):
            found |= dict.fromkeys(self._called(before, NAME, wanted, most))
        if len(found) < most:
            grams = keys.grams(asked)
            alike = self._containing(grams, most * 5)
            if not found:
                alike |= self._sharing(grams)
            found |= dict.fromkeys(self._closest(asked, alike, wanted))
        return self._get(list(found)[:most])

    def complete(self, prefix: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        asked = keys.cleaned(prefix)
        if not asked or most < 1:
            return []
        rows = self._rows(
            """
            SELECT DISTINCT thing FROM keys WHERE key >= ? AND key < ? AND way = ? AND (? = 0 OR types = 0 OR types & ?)
            ORDER BY thing LIMIT ?
            """,
            asked, asked + "\U0010ffff", NAME, *(2 * (bits((type,)) if type is not None else 0,)), most,
        )  # fmt: skip
        return self._get([number for (number,) in rows])

    def get(self, id: str) -> Thing | None:
        if not _is_text(id):
            return None
        rows = self._rows("SELECT body FROM things WHERE id = ?", id)
        return _thing(rows[0][0]) if rows else None

    def __len__(self) -> int:
        return self._things

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock:
            self._connection.close()

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def _called(self, text: str, way: int, wanted: int, most: int) -> list[int]:
        rows = self._rows(
            """
            SELECT thing FROM keys WHERE key = ? AND way = ? AND (? = 0 OR types = 0 OR types & ?)
            ORDER BY thing LIMIT ?
            """,
            text, way, wanted, wanted, most,
        )  # fmt: skip
        return [number for (number,) in rows]

    def _containing(self, grams: Sequence[str], most: int) -> set[int]:
        """Return the numbers of names that contain all of this, for the best known things."""
        match = " AND ".join(map(_quoted, grams))
        rows = self._rows("SELECT rowid FROM grams WHERE grams MATCH ? ORDER BY rowid LIMIT ?", match, most)
        return {number for (number,) in rows}

    def _sharing(self, grams: Sequence[str]) -> set[int]:
        """Return the numbers of names that share a good part of this: a misspelling leaves other parts intact."""
        size = max(-(-len(grams) // _PARTS), 2)
        parts = [grams[at : at + size] for at in range(0, len(grams), size)]
        shared = Counter(number for part in parts for number in self._containing(part, _READ))
        return set(heapq.nsmallest(_COMPARED, shared, key=lambda number: (-shared[number], number)))

    def _closest(self, asked: str, names: set[int], wanted: int) -> list[int]:
        """Return the numbers of things, the closest first."""
        rows = self._rows(
            """
            SELECT names.thing, names.name FROM names JOIN things ON things.number = names.thing
            WHERE names.number IN (SELECT value FROM json_each(?)) AND (? = 0 OR types = 0 OR types & ?)
            """,
            json.dumps(list(names)), wanted, wanted,
        )  # fmt: skip
        close: dict[int, float] = {}
        for thing, name in rows:
            close[thing] = max(close.get(thing, 0), closeness(asked, name))
        kept = [thing for thing, near in close.items() if near >= _FARTHEST]
        return sorted(kept, key=lambda thing: (-round(close[thing], 2), thing))

    def _get(self, numbers: Sequence[int]) -> list[Thing]:
        rows = self._rows(
            "SELECT number, body FROM things WHERE number IN (SELECT value FROM json_each(?))", json.dumps(numbers)
        )
        bodies = dict(rows)
        return [_thing(bodies[number]) for number in numbers]


def _opened(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise BadKnowledgeBase(f"{path} is not there. {MAKE_ONE}")
    # Nobody writes a finished one: a new one takes its name, and whoever reads goes on with the old one.
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    try:
        check(connection, str(path))
    except BadKnowledgeBase:
        connection.close()
        raise
    return connection


def _shipped() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    _built().backup(connection)
    return connection


@cache
def _built() -> sqlite3.Connection:
    """Build the knowledge base that ships with the package, once per process. Building takes ten times as long as
    copying."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    write_checked((files(__package__) / SHIPPED).read_text("utf-8").splitlines(), connection, "General knowledge")
    return connection


def _thing(body: str) -> Thing:
    given = json.loads(body)
    return Thing(
        id=given["id"],
        name=given["name"],
        types=frozenset(map(EntityType, given["types"])),
        aliases=tuple(given["aliases"]),
        description=given["description"],
        prominence=given["prominence"],
        properties={key: tuple(values) for key, values in given["properties"].items()},
        wikidata_id=given["wikidata_id"],
        dbpedia_uri=given["dbpedia_uri"],
    )


def _quoted(gram: str) -> str:
    """Quote a term, so that nothing in it is an operator of the index."""
    return '"' + gram.replace('"', '""') + '"'


def _is_text(text: str) -> bool:
    """Half characters can't be asked for."""
    return text.isascii() or text == text.encode("utf-8", "ignore").decode()
