"""Writes the things of a file into an empty database."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowmill.systems.entities.kb import keys
from rowmill.systems.entities.kb.checking import Wrong, checked
from rowmill.systems.entities.kb.errors import BadKnowledgeBase
from rowmill.systems.entities.kb.format import INITIALS, KEY, NAME, SCHEMA, bits
from rowmill.systems.entities.kb.reading import entries
from rowmill.systems.entities.properties.catalogue import catalogue
from rowmill.systems.entities.things import EntityType

MOST_BAD_LINES = 20
TOLD_EVERY = 1000
_NO_THING = "it has no things. Write one per line, with an id and a name at least."


@dataclass(frozen=True, slots=True)
class Written:
    things: int
    names: int


def write(
    source: Path, connection: sqlite3.Connection, title: str, told: Callable[[int], None] | None = None
) -> Written:
    """Raises BadKnowledgeBase with all that is wrong in the first lines that are. `told` hears how many things were
    read, now and then and at the end."""
    connection.executescript(SCHEMA)
    connection.execute("CREATE TEMP TABLE given (id TEXT PRIMARY KEY, line INTEGER, prominence REAL, body TEXT)")
    things = _read(source, connection, told or (lambda number: None))
    names = _number(connection)
    connection.execute("DROP TABLE given")
    connection.execute("INSERT INTO about VALUES (?, ?, ?)", (title, things, names))
    connection.execute("INSERT INTO grams (grams) VALUES ('optimize')")
    connection.commit()
    return Written(things, names)


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
    values = thing["id"], line, thing["prominence"], json.dumps(thing, ensure_ascii=False)
    try:
        connection.execute("INSERT INTO given VALUES (?, ?, ?, ?)", values)
    except sqlite3.IntegrityError:
        (other,) = connection.execute("SELECT line FROM given WHERE id = ?", (thing["id"],)).fetchone()
        return Wrong((f"it has the id of line {other}; give each thing its own",))
    return thing


def _number(connection: sqlite3.Connection) -> int:
    """From what was read to what is asked. The number of names."""
    names = 0
    for number, (body,) in enumerate(
        connection.execute("SELECT body FROM given ORDER BY prominence DESC, line"), start=1
    ):
        thing = json.loads(body)
        types = frozenset(map(EntityType, thing["types"]))
        mask = bits(types)
        thing["properties"] = {
            key: [_with_label(value, connection) for value in values] if catalogue()[key].kind == "thing" else values
            for key, values in thing["properties"].items()
        }
        connection.execute(
            "INSERT INTO things VALUES (?, ?, ?, ?)", (number, thing["id"], mask, json.dumps(thing, ensure_ascii=False))
        )
        folded = list(dict.fromkeys(keys.cleaned(name) for name in (thing["name"], *thing["aliases"])))
        looked_up = {(name, NAME) for name in folded} | {(keys.key(name), KEY) for name in folded}
        if EntityType.PERSON in types:
            looked_up |= {(key, INITIALS) for name in folded for key in keys.initials(name)}
        connection.executemany("INSERT INTO keys VALUES (?, ?, ?, ?)", [(*each, number, mask) for each in looked_up])
        for name in folded:
            names += 1
            connection.execute("INSERT INTO names VALUES (?, ?, ?)", (names, number, name))
            connection.execute("INSERT INTO grams (rowid, name) VALUES (?, ?)", (names, f" {name} "))
    return names


def _with_label(value: Any, connection: sqlite3.Connection) -> dict[str, str]:
    """A text is the id of a thing of the file, or else what something is called that is not in it."""
    if not isinstance(value, str):
        return dict(value)
    found = connection.execute("SELECT json_extract(body, '$.name') FROM given WHERE id = ?", (value,)).fetchone()
    return {"id": value, "label": found[0]} if found else {"label": value}
