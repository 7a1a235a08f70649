"""Statements of SQLAlchemy Core that go to asyncpg at once, inside a block of an async handler.

SQLAlchemy compiles them, as ever, and keeps what it compiled. Its execution is what is left out: a greenlet, a cursor,
a context and a result for each statement, which take several times as long as the statement itself. Only for INSERT,
UPDATE and DELETE of a single set of values that return no rows; for everything else the caller takes the usual way.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn

import asyncpg
from sqlalchemy import Connection, Engine
from sqlalchemy.engine import Result
from sqlalchemy.engine.cursor import _NO_RESULT_METADATA
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import InvalidRequestError, ResourceClosedError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Delete, Insert, Update

LEAN = "rowmill_lean"
"""Where a compiled statement keeps what is known of it here."""


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
        or getattr(statement, "_return_defaults", False)
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

    def __init__(self, lean: Lean, values: Mapping[str, Any], rowcount: int, row: Any) -> None:
        self.returns_rows = lean.returns  # of which SQLAlchemy keeps the key for itself
        names = [str(column.key) for column in lean.compiled.implicit_returning or ()]
        super().__init__(SimpleResultMetaData(names) if lean.returns else _NO_RESULT_METADATA)
        self._lean, self._values, self._row = lean, values, row
        self.rowcount = rowcount
        self.is_insert = lean.compiled.isinsert

    def close(self) -> None:
        """There are no rows left."""

    @property
    def closed(self) -> bool:
        return True

    @property
    def inserted_primary_key(self) -> Any:
        """The primary key of the row that was inserted."""
        rows = self.inserted_primary_key_rows
        return rows[0] if rows else None

    @property
    def inserted_primary_key_rows(self) -> list[Any]:
        self._check_insert()
        compiled = self._lean.compiled
        if not self._lean.returns:
            return [compiled._inserted_primary_key_from_lastrowid_getter(None, self._values)]
        if self._row is None:
            return []
        return [compiled._inserted_primary_key_from_returning_getter(self._row, self._values)]

    def last_inserted_params(self) -> Mapping[str, Any]:
        self._check_insert()
        return self._values

    def last_updated_params(self) -> Mapping[str, Any]:
        if not self._lean.compiled.isupdate:
            raise InvalidRequestError("this statement is not an UPDATE")
        return self._values

    def _check_insert(self) -> None:
        if not self.is_insert:
            raise InvalidRequestError("this statement is not an INSERT")

    def _fetchall_impl(self) -> list[Any]:
        if not self.returns_rows:
            _NO_RESULT_METADATA._we_dont_return_rows()
        return []

    def _fetchiter_impl(self) -> Any:
        return iter(self._fetchall_impl())

    def _fetchmany_impl(self, size: int | None = None) -> list[Any]:
        return self._fetchall_impl()

    def _fetchone_impl(self, hard_close: bool = False) -> Any:
        self._fetchall_impl()


def over() -> ResourceClosedError:
    """What is raised for a statement that comes after its block."""
    return ResourceClosedError(
        "this settling() block is over: its transaction has ended, and the statement was not sent"
    )


class LeanStatements:
    """The statements of one transaction. `connection` gives SQLAlchemy's connection, if there is one or it is wanted:
    most blocks need none."""

    def __init__(
        self, engine: Engine, raw: "asyncpg.Connection[Any]", adapted: Any, connection: Callable[..., Connection | None]
    ) -> None:
        self._engine: Any = engine
        self._raw, self._adapted, self._connection = raw, adapted, connection
        self.over = False

    def execution(self, statement: Any, values: Any) -> Coroutine[Any, Any, WriteResult] | None:
        """The execution of a statement, to be awaited; None if it has to go through SQLAlchemy."""
        if self.over:
            raise over()
        if (
            not isinstance(statement, (Insert, Update, Delete))
            or not (values is None or isinstance(values, Mapping))
            or statement._execution_options
            or not self._is_plain()
        ):
            return None
        compiled, extracted, *more = statement._compile_w_cache(
            self._engine.dialect,
            compiled_cache=self._engine._compiled_cache,
            column_keys=sorted(values) if values else [],
        )
        if extracted is None:
            return None
        kept = vars(compiled)
        if LEAN not in kept:
            kept[LEAN] = lean(compiled)
        found: Lean | None = kept[LEAN]
        if found is None:
            return None
        # SQLAlchemy 2.1 hands out the values of params() beside those of the statement.
        collected = {"_collected_params": more[0]} if len(more) > 1 else {}
        return self._execute(
            found,
            lambda: (
                compiled.construct_params(values, extracted_parameters=extracted, escape_names=False, **collected) or {}
            ),
        )

    def _is_plain(self) -> bool:
        """Does nobody listen to statements or log them, and were no options set that change them?"""
        connection: Any = self._connection(wanted=False)
        if _is_watched(self._engine) or self._engine._should_log_info():
            return False
        return connection is None or not (
            connection.closed
            or connection.invalidated
            or _is_watched(connection)
            or connection.get_execution_options().get("schema_translate_map")
        )

    async def _execute(self, lean: Lean, construct: Callable[[], Mapping[str, Any]]) -> WriteResult:
        try:
            values = construct()
            arguments = lean.arguments(values)
        except Exception as error:
            self._raise(error, lean, None)
        try:
            async with self._adapted._execute_mutex:
                if self.over:
                    raise over()
                if lean.returns:
                    rows = await self._raw.fetch(lean.text, *arguments)
                    return WriteResult(lean, values, len(rows), rows[0] if rows else None)
                status = await self._raw.execute(lean.text, *arguments)
        except asyncio.CancelledError:
            self._raw.terminate()  # nobody can say whether it was carried out
            raise
        except ResourceClosedError:
            raise
        except Exception as error:
            self._raise_from_driver(error, lean, arguments)
        return WriteResult(lean, values, _count(status), None)

    def _raise_from_driver(self, error: Exception, lean: Lean, arguments: Any) -> NoReturn:
        """As SQLAlchemy would: with an exception of its own, where it has one."""
        try:
            self._adapted._handle_exception(error)
        except Exception as translated:
            if translated is not error:
                self._raise(translated, lean, arguments)
        raise error

    def _raise(self, error: Exception, lean: Lean, values: Any) -> NoReturn:
        connection: Any = self._connection(wanted=True)
        connection._handle_dbapi_exception(error, lean.text, values, None, None)
        raise error


def _is_watched(target: Any) -> bool:
    """Does somebody listen to the statements of this connection or engine, to trace them, say?"""
    return target._has_events and bool(
        target.dispatch.before_execute
        or target.dispatch.after_execute
        or target.dispatch.before_cursor_execute
        or target.dispatch.after_cursor_execute
        or (target.dialect._has_events and target.dialect.dispatch.do_execute)
    )


def _count(status: str) -> int:
    """The rows that a statement wrote, out of what the server says of it: UPDATE 3, INSERT 0 1."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdecimal() else -1
