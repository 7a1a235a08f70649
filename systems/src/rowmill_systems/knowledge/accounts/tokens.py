"""Tokens that programs log in with. Each is shown once, when it is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import sqlalchemy as sa

from rowmill.web.login.tokens import hash_token, new_token
from rowmill_systems.knowledge.accounts.attempts import remove_old_attempts
from rowmill_systems.knowledge.accounts.errors import TokenMissing, TooManyTokens
from rowmill_systems.knowledge.accounts.logins import TokenKind
from rowmill_systems.knowledge.accounts.users import read_account
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import KnowledgeUser, LoginToken
from rowmill_systems.knowledge.rows import all_rows
from rowmill_systems.parts.clock import database_time, now
from rowmill_systems.parts.filenames import printable

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

PREFIX = "knowledge_"
"""What tokens begin with, so that scanners for leaked secrets recognise them."""
LONGEST_TOKEN_NAME = 100
MOST_TOKENS = 100


@dataclass(frozen=True, slots=True)
class TokenSummary:
    """A token, without what one could log in with."""

    id: UUID
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, row: LoginToken) -> "TokenSummary":
        return cls(row.id, row.name, row.created_at, row.expires_at, row.last_used_at)


async def create_token(
    knowledge: "Knowledge", user_id: UUID, name: str, *, days: float | None = None
) -> tuple[str, TokenSummary]:
    """Make a token for programs. It holds for `days`, or until it is revoked. Return it with its summary.

    Raises AccountMissing and TooManyTokens.
    """
    token = new_token(PREFIX)
    row = {
        "id": uuid4(),
        "token_hash": hash_token(token),
        "user_id": user_id,
        "kind": str(TokenKind.BEARER),
        "name": printable(name)[:LONGEST_TOKEN_NAME],
    }

    # served by: ix_login_tokens_user
    def insert(connection: sa.Connection) -> TokenSummary:
        read_account(connection, KnowledgeUser.id == user_id, lock=True)
        if len(_tokens_of(connection, user_id)) >= MOST_TOKENS:
            raise TooManyTokens(f"you have {MOST_TOKENS} tokens: revoke one first")
        expires_at = None if days is None else database_time(connection) + timedelta(days=days)
        connection.execute(sa.insert(LoginToken).values({**row, "expires_at": expires_at}))
        wanted = sa.select(LoginToken).where(LoginToken.id == row["id"])
        return TokenSummary.of(all_rows(connection, wanted)[0])

    summary = await knowledge.mill.run(insert)
    log_event("token.created", user_id=user_id, token_id=summary.id)
    return token, summary


async def list_tokens(knowledge: "Knowledge", user_id: UUID) -> Sequence[TokenSummary]:
    """Return the tokens of a user for programs, the newest first."""
    return await knowledge.mill.run(lambda connection: _tokens_of(connection, user_id), write=False)


# served by: ix_login_tokens_user
def _tokens_of(connection: sa.Connection, user_id: UUID) -> list[TokenSummary]:
    wanted = sa.select(LoginToken).where(LoginToken.user_id == user_id, LoginToken.kind == str(TokenKind.BEARER))
    found = all_rows(connection, wanted.order_by(LoginToken.created_at.desc(), LoginToken.id))
    return [TokenSummary.of(row) for row in found]


async def revoke_token(knowledge: "Knowledge", user_id: UUID, token_id: UUID) -> None:
    """Revoke a token of a user. Raises TokenMissing."""
    wanted = sa.delete(LoginToken).where(
        LoginToken.id == token_id, LoginToken.user_id == user_id, LoginToken.kind == str(TokenKind.BEARER)
    )

    # served by: the primary key
    def delete(connection: sa.Connection) -> None:
        if not connection.execute(wanted).rowcount:
            raise TokenMissing("there is no such token")

    await knowledge.mill.run(delete)
    log_event("token.revoked", user_id=user_id, token_id=token_id)


async def remove_expired(knowledge: "Knowledge") -> int:
    """Delete logins and tokens that have expired, and attempts that are forgotten. Return how many logins."""

    # served by: a scan of the logins
    def delete(connection: sa.Connection) -> int:
        remove_old_attempts(connection)
        expired = sa.delete(LoginToken).where(LoginToken.expires_at < now(connection.dialect.name))
        return connection.execute(expired).rowcount

    return await knowledge.mill.run(delete)
