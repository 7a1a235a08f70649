"""Log in and out, and find out who asks."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import sqlalchemy as sa

from rowmill.web.login.tokens import hash_token, new_token
from rowmill_systems.knowledge.accounts.account import Account, hasher_of, same_email
from rowmill_systems.knowledge.accounts.attempts import Subjects, count_attempts, forgive, subjects_of
from rowmill_systems.knowledge.accounts.errors import LoginsBlocked, WrongLogin
from rowmill_systems.knowledge.accounts.users import end_logins, set_password
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import KnowledgeUser, LoginToken
from rowmill_systems.knowledge.rows import all_rows
from rowmill_systems.parts.clock import database_time, now
from rowmill_systems.parts.database import in_utc

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

NOTED_SECONDS = 300.0
"""How exactly the last use of a token is known: not every request writes."""


class TokenKind(StrEnum):
    SESSION = "session"
    """A login, with a password."""
    BEARER = "bearer"
    """Of a program. It makes no further tokens, and changes no password."""


@dataclass(frozen=True, slots=True)
class NewLogin:
    """A login that was just made. The token is shown once."""

    token: str
    account: Account
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and with which token."""

    account: Account
    token_id: UUID
    kind: TokenKind


async def log_in(knowledge: "Knowledge", email: str, password: str, *, address: str | None) -> NewLogin:
    """Log a user in. Raises WrongLogin and LoginsBlocked; an unknown user takes as long as a wrong password."""
    email = same_email(email)
    checked, subjects = await _checked(knowledge, email, password, address)
    new_hash = await hasher_of(knowledge).hash(password) if checked.outdated else None
    token = new_token()

    def begin(connection: sa.Connection) -> NewLogin:
        found = _by_email(connection, email, lock=True)
        if found is None or not found.is_active or found.password_hash != checked.password_hash:
            raise WrongLogin  # it was changed meanwhile, which ended all logins: this must not be one more
        moment = database_time(connection)
        expires_at = moment + timedelta(hours=knowledge.settings.session_hours)
        row = {"id": uuid4(), "token_hash": hash_token(token), "user_id": found.id, "kind": str(TokenKind.SESSION)}
        connection.execute(sa.insert(LoginToken).values({**row, "expires_at": expires_at}))
        values = {"last_login_at": moment, "password_hash": new_hash or found.password_hash}
        connection.execute(sa.update(KnowledgeUser).where(KnowledgeUser.id == found.id).values(values))
        forgive(connection, subjects, email)
        return NewLogin(token, replace(Account.of(found), last_login_at=moment), expires_at)

    login = await knowledge.mill.run(begin)
    log_event("login.done", user_id=login.account.id)
    return login


@dataclass(frozen=True, slots=True)
class _CheckedUser:
    password_hash: str
    outdated: bool


async def _checked(
    knowledge: "Knowledge", email: str, password: str, address: str | None
) -> tuple[_CheckedUser, Subjects]:
    """Return the user whose password this is, and what the attempt was counted for."""
    subjects = subjects_of(email, address)
    try:
        await knowledge.mill.run(lambda connection: count_attempts(connection, subjects))
    except LoginsBlocked:
        log_event("login.blocked")
        raise
    user = await knowledge.mill.run(lambda connection: _by_email(connection, email), write=False)
    known = user.password_hash if user is not None and user.is_active else None
    check = await hasher_of(knowledge).check(password, known)
    if user is None or known is None or not check.right:
        log_event("login.refused", user_id=None if user is None else user.id)
        raise WrongLogin
    return _CheckedUser(known, check.outdated), subjects


# served by: uq_users_email
def _by_email(connection: sa.Connection, email: str, *, lock: bool = False) -> KnowledgeUser | None:
    wanted = sa.select(KnowledgeUser).where(KnowledgeUser.email == email)
    return next(iter(all_rows(connection, wanted.with_for_update() if lock else wanted)), None)


async def change_password(
    knowledge: "Knowledge", caller: Caller, *, current: str, new: str, address: str | None
) -> None:
    """Change the caller's own password, and end all other logins and tokens.

    Raises WrongLogin if the current one is wrong, LoginsBlocked and PasswordRefused.
    """
    email = caller.account.email
    _, subjects = await _checked(knowledge, email, current, address)
    await knowledge.mill.run(lambda connection: forgive(connection, subjects, email))
    await set_password(knowledge, caller.account.id, new, keep=caller.token_id)


async def find_caller(knowledge: "Knowledge", token: str) -> Caller | None:
    """Return who has this token. None: nobody, or it has expired, or the account is closed."""
    wanted = (
        sa.select(LoginToken, KnowledgeUser)
        .join(KnowledgeUser, KnowledgeUser.id == LoginToken.user_id)
        .where(LoginToken.token_hash == hash_token(token), KnowledgeUser.is_active)
    )

    # served by: uq_login_tokens_hash
    def read(connection: sa.Connection) -> tuple[Caller, bool] | None:
        moment = database_time(connection)
        with sa.orm.Session(connection) as session:
            found = session.execute(wanted).first()
            if found is None:
                return None
            held, user = found
            if held.expires_at is not None and in_utc(held.expires_at) <= moment:
                return None
            caller = Caller(Account.of(user), held.id, TokenKind(held.kind))
            used = held.last_used_at
        return caller, used is None or (moment - in_utc(used)).total_seconds() > NOTED_SECONDS

    found = await knowledge.mill.run(read, write=False)
    if found is None:
        return None
    caller, is_due = found
    if is_due:
        await knowledge.mill.run(lambda connection: _note_use(connection, caller.token_id))
    return caller


# served by: the primary key
def _note_use(connection: sa.Connection, token_id: UUID) -> None:
    used = sa.update(LoginToken).where(LoginToken.id == token_id)
    connection.execute(used.values(last_used_at=now(connection.dialect.name)))


async def log_out(knowledge: "Knowledge", caller: Caller, *, everywhere: bool = False) -> None:
    """End a login; `everywhere` ends all logins and tokens of the user."""

    # served by: the primary key, ix_login_tokens_user
    def end(connection: sa.Connection) -> None:
        if everywhere:
            end_logins(connection, caller.account.id)
        else:
            connection.execute(sa.delete(LoginToken).where(LoginToken.id == caller.token_id))

    await knowledge.mill.run(end)
    log_event("login.ended", user_id=caller.account.id)
