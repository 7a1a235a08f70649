"""What a table that a team had before does not have yet."""

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa


def missing_columns(connection: sa.Connection, table: str, columns: Mapping[str, Any]) -> Iterator[str]:
    there = {column["name"] for column in sa.inspect(connection).get_columns(table)}
    return (name for name in columns if name not in there)


def missing_indexes(connection: sa.Connection, table: str, indexes: Mapping[str, Any]) -> Iterator[str]:
    there = {index["name"] for index in sa.inspect(connection).get_indexes(table)}
    return (name for name in indexes if name not in there)
