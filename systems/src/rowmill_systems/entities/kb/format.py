"""The file of a knowledge base: SQLite, written once, then read only.

Things are numbered by how well known they are, the best known first: who reads in the order of numbers and stops early
has the likeliest.
"""

import sqlite3
from collections.abc import Iterable

from rowmill_systems.entities.kb.errors import BadKnowledgeBase
from rowmill_systems.parts.names.types import EntityType

APPLICATION_ID = 0x726D6B62
"""`rmkb`, where SQLite keeps what kind of file it is."""
VERSION = 1

NAME, KEY, INITIALS = range(3)
"""Ways to look a name up: as it is, by its key, and by its initials."""

SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE about (title TEXT NOT NULL, things INTEGER NOT NULL, names INTEGER NOT NULL);
CREATE TABLE things (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, types INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE names (number INTEGER PRIMARY KEY, thing INTEGER NOT NULL, name TEXT NOT NULL);
CREATE TABLE keys (
    key TEXT NOT NULL, way INTEGER NOT NULL, thing INTEGER NOT NULL, types INTEGER NOT NULL,
    PRIMARY KEY (key, way, thing)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE grams USING fts5(name, content='', detail='none', tokenize="trigram case_sensitive 1");
CREATE VIRTUAL TABLE gram_counts USING fts5vocab('grams', 'row');
"""

_BITS = {each: 1 << number for number, each in enumerate(EntityType)}


def bits(types: Iterable[EntityType]) -> int:
    return sum(_BITS[each] for each in types)


def check(connection: sqlite3.Connection, name: str) -> None:
    """Raise BadKnowledgeBase unless this is a knowledge base of this version."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise BadKnowledgeBase(f"{name} is no knowledge base. {MAKE_ONE}") from error
    if application != APPLICATION_ID:
        raise BadKnowledgeBase(f"{name} is no knowledge base. {MAKE_ONE}")
    if version != VERSION:
        raise BadKnowledgeBase(
            f"{name} is of version {version}, and this Rowmill reads {VERSION}. Make it again from its source."
        )


MAKE_ONE = "Make one of a JSON Lines or CSV file with: rowmill systems entities kb build SOURCE TARGET"
