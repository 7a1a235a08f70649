"""Check a table of entities that existed before: can the system work on it, and if not, what is the fix?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from rowmill.systems.revisions import expression_indexes_ignored
from rowmill_systems.entities.models import COLUMNS, TABLE, Shape, tables_of
from rowmill_systems.entities.words import STATUSES

LONGEST_STATUS = max(map(len, STATUSES))
FAMILIES: dict[str, tuple[type[sa.types.TypeEngine[Any]], ...]] = {
    "text": (sa.String,),
    "number": (sa.Integer, sa.Numeric, sa.Float),
    "time": (sa.DateTime,),
    "jsonb": (sa.JSON,),
}
IN_SQL = {"text": "text", "number": "double precision", "time": "timestamptz", "jsonb": "jsonb"}


def check_table(connection: sa.Connection, shape: Shape) -> None:
    """Raise DeclarationError with every problem and its fix. A missing table or column is fine: migrations add them."""
    inspector = sa.inspect(connection)
    if not inspector.has_table(TABLE):
        return
    there: dict[str, Mapping[str, Any]] = {str(column["name"]): column for column in inspector.get_columns(TABLE)}
    with expression_indexes_ignored():
        problems = [*_key(inspector, there, shape), *_name(there, shape)]
    if connection.dialect.name == "postgresql":  # a column of SQLite takes values of any type
        problems += _types(there, shape)
    if problems:
        raise rm.errors.DeclarationError(TABLE, problems, kind="a queue on table")


def _key(inspector: sa.Inspector, there: Mapping[str, Mapping[str, Any]], shape: Shape) -> Iterator[str]:
    primary = inspector.get_pk_constraint(TABLE)["constrained_columns"]
    if shape.key not in there:
        if len(primary) == 1:
            yield f"it has no column {shape.key}. Set {_columns('entity_id', primary[0])}{_type(there[primary[0]])}"
        else:
            yield f"it has no column {shape.key}, and no primary key of one column. Add one, of text or uuid"
        return
    kind, found = there[shape.key]["type"], _id_type(there[shape.key]["type"])
    if found is None:
        yield (
            f"column {shape.key} holds {kind}, and ids are text or uuid. Leave that table to its owner: give this "
            "system a database or a schema of its own, and send it the entities, each with that id as external_id"
        )
    elif found != shape.id_type and inspector.dialect.name == "postgresql":
        yield f"column {shape.key} holds {kind}. Set ENTITIES_ID_TYPE={found}"
    unique: list[Sequence[str | None]] = [
        primary,
        *(constraint["column_names"] for constraint in inspector.get_unique_constraints(TABLE)),
    ]
    unique += [index["column_names"] for index in inspector.get_indexes(TABLE) if index["unique"]]
    if [shape.key] not in unique:
        yield (
            f"column {shape.key} is not unique. Run: CREATE UNIQUE INDEX entities_key ON {TABLE} ({shape.key}); "
            f"or name the column that is: {_columns('entity_id', '…')}"
        )


def _name(there: Mapping[str, Any], shape: Shape) -> Iterator[str]:
    name = shape.column("name")
    if name not in there:
        known = ", ".join(there)
        yield f"it has no column {name}. Set {_columns('name', '…')} to the one that holds names. It has: {known}"


def _types(there: Mapping[str, Mapping[str, Any]], shape: Shape) -> Iterator[str]:
    table = tables_of(shape).entity.__table__
    for usual, attribute in COLUMNS.items():
        name = shape.column(usual)
        if attribute == "id" or name not in there:
            continue
        kind = there[name]["type"]
        family = next(each for each, kinds in FAMILIES.items() if isinstance(table.c[name].type, kinds))
        fits = isinstance(kind, FAMILIES[family]) and not isinstance(kind, sa.Enum)
        if family == "time" and fits and usual != "created_at":
            fits = kind.timezone
        if not fits:
            how = f"{name} AT TIME ZONE 'UTC'" if isinstance(kind, sa.DateTime) else f"{name}::{IN_SQL[family]}"
            yield (
                f"column {name} holds {kind}, and should hold {IN_SQL[family]}. Run: ALTER TABLE {TABLE} ALTER COLUMN "
                f"{name} TYPE {IN_SQL[family]} USING {how}"
            )
        elif usual == "enrichment_status" and (kind.length or LONGEST_STATUS) < LONGEST_STATUS:
            yield (
                f"column {name} takes {kind.length} characters, and {max(STATUSES, key=len)} has {LONGEST_STATUS}. "
                f"Run: ALTER TABLE {TABLE} ALTER COLUMN {name} TYPE varchar(20)"
            )


def _id_type(kind: "sa.types.TypeEngine[Any]") -> str | None:
    """SQLite has no uuids: there they are text."""
    if isinstance(kind, sa.Uuid):
        return "uuid"
    return "text" if isinstance(kind, sa.String) and not isinstance(kind, sa.Enum) else None


def _columns(usual: str, name: str) -> str:
    return f"ENTITIES_COLUMNS='{json.dumps({usual: name}, ensure_ascii=False)}'"


def _type(column: Mapping[str, Any]) -> str:
    found = _id_type(column["type"])
    return f" and ENTITIES_ID_TYPE={found}" if found else ""
