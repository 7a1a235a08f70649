"""The SQLAlchemy sessions that `settling()` gives to handlers. The block begins and ends their transaction."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from rowmill.model.errors import TransactionMisused

if TYPE_CHECKING:
    from rowmill.model.lease import Lease

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def is_core(statement: Any) -> bool:
    """Return whether a statement has nothing to do with the ORM."""
    attributes = getattr(statement, "_propagate_attrs", None)
    return attributes is not None and attributes.get("compile_state_plugin") != "orm"


class BlockSession(Session):
    """The session of a `settling()` block. Only the block commits or rolls back; the handler may use savepoints."""

    def __init__(self, bind: Connection, **options: Any) -> None:
        super().__init__(bind, expire_on_commit=False, join_transaction_mode="control_fully", **options)
        self._connected = bind

    def execute(
        self,
        statement: Any,
        params: Any = None,
        *,
        execution_options: Any = NO_OPTIONS,
        bind_arguments: Any = None,
        **private: Any,
    ) -> Any:
        """Execute a statement. A Core statement goes straight to the connection, without the session's work for
        objects."""
        if bind_arguments or private or not self.is_core(statement):
            return super().execute(
                statement, params, execution_options=execution_options, bind_arguments=bind_arguments, **private
            )
        return self._connected.execute(statement, params, execution_options=execution_options)

    def is_core(self, statement: Any) -> bool:
        """Return whether neither the statement nor, so far, the session has to do with objects."""
        return is_core(statement) and not self.in_transaction() and not self.dispatch.do_orm_execute

    def commit(self) -> NoReturn:
        raise TransactionMisused(
            "tx.commit() inside settling(): the block commits by itself when it ends, together with the row. "
            "Leave the call out"
        )

    def rollback(self) -> NoReturn:
        raise TransactionMisused(
            "tx.rollback() inside settling(): to undo everything, raise an exception out of the block; "
            "for a part that may fail: async with tx.begin_nested()"
        )

    def close(self) -> NoReturn:
        raise TransactionMisused(
            "tx.close() inside settling(): the block closes its session when it ends. Leave the call out"
        )

    def reset(self) -> NoReturn:
        self.close()

    def invalidate(self) -> NoReturn:
        self.close()

    def begin(self, nested: bool = False) -> Any:
        if nested:
            return super().begin(nested=True)
        raise TransactionMisused(
            "tx.begin() inside settling(): the block has begun the transaction already. Leave it out; "
            "for a part that may fail: tx.begin_nested()"
        )

    def finish(self) -> None:
        """Flush and commit. The fence is the last statement before the commit."""
        super().commit()

    def end(self) -> None:
        super().close()


LISTENED_TO: "Session" = Session()
"""A session to ask whether somebody listens to the statements of all sessions, before a block has one."""


class AsyncBlockSession(AsyncSession):
    """The session of a `settling()` block in an async handler."""

    sync_session_class: type[BlockSession] = BlockSession

    def __init__(
        self, connection: Callable[[], AsyncConnection], execution: Callable[[Any, Any], Awaitable[Any] | None] | None
    ) -> None:
        """`connection` returns the connection, which is made when it is first needed. `execution` executes a statement
        with its values directly on the driver, or returns None if it can't."""
        self._connection, self._execution = connection, execution
        self._session: BlockSession | None = None
        self._async_binds: dict[Any, Any] = {}

    @property  # type: ignore[misc]
    def bind(self) -> Any:
        return self._connection()

    @property
    def _async_bind(self) -> Any:  # type: ignore[override, unused-ignore]
        return self._connection()

    @property
    def sync_session(self) -> BlockSession:  # type: ignore[override]
        """The sync session, made at its first use: a Core statement needs none."""
        if self._session is None:
            connection = self._connection().sync_connection
            assert connection is not None
            self._session = self.sync_session_class(bind=connection)
            self._assign_proxied(self._session)
        return self._session

    @property
    def _proxied(self) -> BlockSession:  # type: ignore[override]
        return self.sync_session

    @property
    def used(self) -> bool:
        """Whether the sync session was made."""
        return self._session is not None

    def _is_core(self, statement: Any) -> bool:
        if self._session is not None:
            return self._session.is_core(statement)
        return is_core(statement) and not LISTENED_TO.dispatch.do_orm_execute

    async def execute(
        self,
        statement: Any,
        params: Any = None,
        *,
        execution_options: Any = NO_OPTIONS,
        bind_arguments: Any = None,
        **private: Any,
    ) -> Any:
        if (
            self._execution is not None
            and not (execution_options or bind_arguments or private)
            and self._is_core(statement)
        ):
            written = self._execution(statement, params)
            if written is not None:
                return await written
        return await super().execute(
            statement, params, execution_options=execution_options, bind_arguments=bind_arguments, **private
        )


class BatchTransaction(BlockSession):
    """The session of a batch's `settling()` block. It lists the rows that are still ours."""

    leases: "list[Lease[Any]]"
    """The rows that are still ours. They are locked until the block ends."""
    lost: "list[Lease[Any]]"
    """The rows that somebody else holds now. Write nothing for them."""


class AsyncBatchTransaction(AsyncBlockSession):
    """The session of a batch's `settling()` block in an async handler."""

    sync_session_class = BatchTransaction
    leases: "list[Lease[Any]]"
    lost: "list[Lease[Any]]"
