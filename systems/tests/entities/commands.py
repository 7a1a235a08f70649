"""Commands of entities on a database, with a small knowledge base."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from rowmill_systems.entities.kb.build import build
from systems.tests.shell import Shell

THINGS = [
    {"id": "ada", "name": "Ada Lovelace", "types": ["person"], "prominence": 0.7, "wikidata_id": "Q7259",
     "dbpedia_uri": "http://dbpedia.org/resource/Ada_Lovelace",
     "properties": {"birth_date": ["1815-12-10"], "occupation": ["mathematician", "writer"]}},
    {"id": "zurich", "name": "Zürich", "types": ["place"], "prominence": 0.9, "wikidata_id": "Q72",
     "properties": {"coordinates": [{"lat": -47.37, "lon": 8.54}]}},
    {"id": "evil", "name": "Evil Corp", "types": ["organisation"], "prominence": 0.9,
     "properties": {"industry": ["=cmd|' /C calc'!A0", "+1+cmd"]}},
    {"id": "caesar", "name": "Julius Caesar", "types": ["person"], "prominence": 0.9,
     "properties": {"birth_date": ["-0100-07-12"]}},
    {"id": "john-1", "name": "John Smith", "types": ["person"], "prominence": 0.5, "description": "a painter"},
    {"id": "john-2", "name": "John Smith", "types": ["person"], "prominence": 0.5, "description": "a sailor"},
]  # fmt: skip


def shell_on(url: str, folder: Path) -> Shell:
    given = {
        "ENTITIES_DATABASE_URL": url,
        "ENTITIES_KNOWLEDGE_BASE": str(folder / "things.kb"),
        "ROWMILL_POLL_BASE": "0.02",
        "ROWMILL_POLL_MAX": "0.2",
        "COLUMNS": "200",
    }
    shell = Shell("entities", folder, given)
    (folder / "things.jsonl").write_text("".join(json.dumps(thing) + "\n" for thing in THINGS))
    build(folder / "things.jsonl", folder / "things.kb")
    return shell


def database(shell: Shell) -> sqlite3.Connection:
    return sqlite3.connect(shell.given["ENTITIES_DATABASE_URL"].removeprefix("sqlite:///"), timeout=60)


def answers(shell: Shell, statement: str) -> list[tuple[Any, ...]]:
    connection = database(shell)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def are_there(shell: Shell, statement: str) -> bool:
    try:
        return bool(answers(shell, statement))
    except sqlite3.Error:
        return False  # the tables are not there yet
