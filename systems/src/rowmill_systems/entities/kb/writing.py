"""Write the things of a file into an empty database."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from rowmill_systems.entities.kb import keys
from rowmill_systems.entities.kb.checking import Wrong, checked, filled
from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.entities.kb.format import INITIALS, KEY, NAME, SCHEMA, bits
from rowmill_systems.entities.kb.reading import entries
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.parts.names.types import EntityType

MOST_BAD_LINES = 20
TOLD_EVERY = 1000
PAGE = 500
MOST_LABELS = 10_000

Label = Callable[[str], str | None]
"""Returns the name of the thing with this id, if there is one."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NO_THING = "it has no things. Write one per line, with an id and a name at least."


@dataclass(frozen=True, slots=True)
class Written:
    things: int
    names: int


def write(
    source: Path, connection: sqlite3.Connection, title: str, told: Callable[[int], None] | None = None
) -> Written:
    """Write checked things.

    Raises BadKnowledgeBase with the first lines that are wrong. `told` is called with the number of things read so far,
    now and then and at the end.
    """
    connection.executescript(SCHEMA)
    connection.execute(
        "CREATE TEMP TABLE given (id TEXT PRIMARY KEY, line INTEGER, name TEXT, prominence REAL, body TEXT)"
    )
    things = _read(source, connection, told or (lambda number: None))
    names = _number(_in_order(connection), _labels(connection), connection)
    connection.execute("DROP TABLE given")
    return _finished(Written(things, names), connection, title)


def write_checked(lines: Iterable[str], connection: sqlite3.Connection, title: str) -> Written:
    """Write lines that are known to be right and in order, as those that ship, without checking them again."""
    connection.executescript(SCHEMA)
    things = [filled(json.loads(line)) for line in lines]
    names = _number(things, {thing["id"]: thing["name"] for thing in things}.get, connection)
    return _finished(Written(len(things), names), connection, title)


def _finished(written: Written, connection: sqlite3.Connection, title: str) -> Written:
    connection.execute("INSERT INTO about VALUES (?, ?, ?)", (title, written.things, written.names))
    connection.execute("INSERT INTO grams (grams) VALUES ('optimize')")
    connection.commit()
    return written


def _read(source: Path, connection: sqlite3.Connection, told: Callable[[int], None]) -> int:
    things = 0
    wrong: list[str] = []
    for line, entry in entries(source):
        found = entry if isinstance(entry, Wrong) else checked(entry)
        if not isinstance(found, Wrong):
            found = _kept(found, line, connection)
        if isinstance(found, Wrong):
            wrong.append(f"line {line}: {'; '.join(found.problems)}")
            if len(wrong) == MOST_BAD_LINES:
                wrong.append("… and perhaps more after it")
                break
        else:
            things += 1
            if things % TOLD_EVERY == 0:
                told(things)
    if not wrong and not things:
        wrong = [_NO_THING]
    if wrong:
        raise BadKnowledgeBase("\n".join((f"{source} is not what a knowledge base can be made of:", *wrong)))
    told(things)
    return things


def _kept(thing: dict[str, Any], line: int, connection: sqlite3.Connection) -> dict[str, Any] | Wrong:
    values = thing["id"], line, thing["name"], thing["prominence"], _json(thing)
    try:
        connection.execute("INSERT INTO given VALUES (?, ?, ?, ?, ?)", values)
    except sqlite3.IntegrityError:
        (other,) = connection.execute("SELECT line FROM given WHERE id = ?", (thing["id"],)).fetchone()
        return Wrong((f"it has the id of line {other}; give each thing its own",))
    return thing


def _in_order(connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    for (body,) in connection.execute("SELECT body FROM given ORDER BY prominence DESC, line"):
        yield json.loads(body)


def _labels(connection: sqlite3.Connection) -> Label:
    @lru_cache(MOST_LABELS)
    def label(id: str) -> str | None:
        found = connection.execute("SELECT name FROM given WHERE id = ?", (id,)).fetchone()
        return found[0] if found else None

    return label


def _number(given: Iterable[dict[str, Any]], label: Label, connection: sqlite3.Connection) -> int:
    """Number the things, write them with the names by which they are found, and return how many names there are."""
    left = iter(given)
    number = names = 0
    while page := list(islice(left, PAGE)):
        things, called, looked_up = [], [], []
        for thing in page:
            number += 1
            types = frozenset(map(EntityType, thing["types"]))
            mask = bits(types)
            thing["properties"] = _with_labels(thing["properties"], label)
            things.append((number, thing["id"], mask, _json(thing)))
            folded = list(dict.fromkeys(keys.cleaned(name) for name in (thing["name"], *thing["aliases"])))
            called += [(names + place, number, name) for place, name in enumerate(folded, start=1)]
            names += len(folded)
            looked_up += [(*each, number, mask) for each in _looked_up(folded, EntityType.PERSON in types)]
        connection.executemany("INSERT INTO things VALUES (?, ?, ?, ?)", things)
        connection.executemany("INSERT INTO names VALUES (?, ?, ?)", called)
        connection.executemany("INSERT INTO keys VALUES (?, ?, ?, ?)", looked_up)
        padded = [(place, f" {name} ") for place, _, name in called]
        connection.executemany("INSERT INTO grams (rowid, name) VALUES (?, ?)", padded)
    return names


def _looked_up(folded: list[str], is_person: bool) -> set[tuple[str, int]]:
    found = {(name, NAME) for name in folded} | {(keys.key(name), KEY) for name in folded}
    if is_person:
        found |= {(key, INITIALS) for name in folded for key in keys.initials(name)}
    return found


def _with_labels(properties: dict[str, list[Any]], label: Label) -> dict[str, list[Any]]:
    return {
        key: [_with_label(value, label) for value in values] if catalogue()[key].kind == "thing" else values
        for key, values in properties.items()
    }


def _with_label(value: Any, label: Label) -> dict[str, str]:
    """Return a reference: to the thing of the file with this id, or else by this name."""
    if not isinstance(value, str):
        return dict(value)
    name = label(value)
    return {"id": value, "label": name} if name else {"label": value}
