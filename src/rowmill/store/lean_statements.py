"""Statements of SQLAlchemy Core that go to asyncpg at once, inside a block of an async handler.

SQLAlchemy compiles them, as ever, and keeps what it compiled. Its execution is what is left out: a greenlet, a cursor,
a context and a result for each statement, which take several times as long as the statement itself. Only for INSERT,
UPDATE and DELETE of a single set of values that return no rows; for everything else the caller takes the usual way.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import asyncpg
from sqlalchemy import Connection
from sqlalchemy.engine import Result
from sqlalchemy.engine.cursor import _NO_RESULT_METADATA
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Delete, Insert, Update


class Lean:
    """How one compiled statement goes to the driver."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self.compiled = compiled
        self.text = compiled.string
        processors = compiled._bind_processors
        self._binds: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, processors.get(name))  # type: ignore[misc]
            for name in compiled.positiontup or ()
        ]
        self.returns = bool(compiled.implicit_returning)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        return [values[name] if bind is None else bind(values[name]) for name, bind in self._binds]


def lean(compiled: Any) -> Lean | None:
    """None: SQLAlchemy does more for this statement than to send it."""
    if not isinstance(compiled, SQLCompiler) or compiled.compile_state is None or not compiled.positional:
        return None
    statement: Any = compiled.compile_state.statement
    if (
        statement._returning
        or compiled.insert_prefetch
        or compiled.update_prefetch
        or compiled.literal_execute_params
        or compiled.post_compile_params
        or any(_is_read(column, compiled) for column in compiled.implicit_returning or ())
    ):
        return None
    return Lean(compiled)


def _is_read(column: Any, compiled: SQLCompiler) -> bool:
    """Does SQLAlchemy turn a value of this column into another one?"""
    dialect = compiled.dialect
    return column.type.dialect_impl(dialect).result_processor(dialect, None) is not None


class WriteResult(Result[Any]):
    """What an INSERT, UPDATE or DELETE without RETURNING answers."""

    returns_rows = False

    def __init__(self, lean: Lean, values: Mapping[str, Any], rowcount: int, row: Any) -> None:
        super().__init__(_NO_RESULT_METADATA)
        self._lean, self._values, self._row = lean, values, row
        self.rowcount = rowcount
        self.is_insert = lean.compiled.isinsert

    def close(self) -> None:
        """It is closed: there are no rows."""

    @property
    def closed(self) -> bool:
        return True

    @property
    def inserted_primary_key(self) -> Any:
        """The primary key of the row that was inserted."""
        compiled = self._lean.compiled
        if self._lean.returns:
            return None if self._row is None else compiled._inserted_primary_key_from_returning_getter(
                self._row, self._values
            )  # fmt: skip
        return compiled._inserted_primary_key_from_lastrowid_getter(None, self._values)

    @property
    def inserted_primary_key_rows(self) -> list[Any]:
        return [self.inserted_primary_key]

    def last_inserted_params(self) -> Mapping[str, Any]:
        return self._values

    last_updated_params = last_inserted_params

    def _no_rows(self, *_given: Any, **_named: Any) -> NoReturn:
        _NO_RESULT_METADATA._we_dont_return_rows()

    _fetchiter_impl = _fetchone_impl = _fetchall_impl = _fetchmany_impl = _no_rows


KNOWN: "WeakKeyDictionary[Any, Lean | None]" = WeakKeyDictionary()
"""By what SQLAlchemy compiled and keeps."""


class LeanStatements:
    """The statements of one transaction: SQLAlchemy's connection, and the driver's beneath it."""

    def __init__(self, connection: Connection, raw: "asyncpg.Connection[Any]") -> None:
        self._connection, self._raw = connection, raw

    def execution(self, statement: Any, values: Any) -> Coroutine[Any, Any, WriteResult] | None:
        """The execution of a statement, to be awaited; None if it has to go through SQLAlchemy."""
        connection: Any = self._connection
        if (
            not isinstance(statement, (Insert, Update, Delete))
            or not (values is None or isinstance(values, Mapping))
            or _is_watched(connection)
            or connection.get_execution_options().get("schema_translate_map")
            or connection.invalidated
        ):
            return None
        cache = connection.engine._compiled_cache
        compiled, extracted, *more = statement._compile_w_cache(
            connection.dialect, compiled_cache=cache, column_keys=sorted(values) if values else []
        )
        if compiled not in KNOWN:
            KNOWN[compiled] = lean(compiled)
        found = KNOWN[compiled]
        if found is None or extracted is None:
            return None
        # SQLAlchemy 2.1 hands out the values of params() beside those of the statement.
        collected = {"_collected_params": more[0]} if len(more) > 1 else {}
        bound = compiled.construct_params(values, extracted_parameters=extracted, escape_names=False, **collected)
        return self._execute(found, bound or {})

    async def _execute(self, lean: Lean, values: Mapping[str, Any]) -> WriteResult:
        try:
            arguments = lean.arguments(values)
        except Exception as error:
            self._raise(error, lean, values)
        try:
            if lean.returns:
                rows = await self._raw.fetch(lean.text, *arguments)
                return WriteResult(lean, values, len(rows), rows[0] if rows else None)
            status = await self._raw.execute(lean.text, *arguments)
        except Exception as error:
            self._raise_from_driver(error, lean, arguments)
        return WriteResult(lean, values, _count(status), None)

    def _raise_from_driver(self, error: Exception, lean: Lean, arguments: Any) -> NoReturn:
        """As SQLAlchemy would: with an exception of its own."""
        adapter: Any = self._connection.connection.dbapi_connection
        try:
            adapter._handle_exception(error)
        except Exception as translated:
            self._raise(translated, lean, arguments)
        raise error

    def _raise(self, error: Exception, lean: Lean, values: Any) -> NoReturn:
        if not self._connection.in_transaction():  # SQLAlchemy would roll back where it knows of none
            self._connection.begin()
        self._connection._handle_dbapi_exception(error, lean.text, values, None, None)
        raise error


def _is_watched(connection: Any) -> bool:
    """Does somebody listen to the statements of this connection, to trace them, say?"""
    return any(
        target._has_events
        and (
            target.dispatch.before_execute
            or target.dispatch.after_execute
            or target.dispatch.before_cursor_execute
            or target.dispatch.after_cursor_execute
        )
        for target in (connection, connection.engine)
    )


def _count(status: str) -> int:
    """The rows that a statement wrote, out of what the server says of it: UPDATE 3, INSERT 0 1."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdecimal() else -1
