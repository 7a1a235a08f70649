"""Create, find, list, change and delete users.

The first administrator is made by a command: over HTTP only an administrator makes users.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from rowmill.web.keyset import Keyset
from rowmill_systems.knowledge.accounts.account import Account, checked_email, checked_password, hasher_of, same_email
from rowmill_systems.knowledge.accounts.attempts import user_subject
from rowmill_systems.knowledge.accounts.errors import AccountMissing, EmailTaken, LastAdministrator
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import KnowledgeUser, LoginFailure, LoginToken
from rowmill_systems.knowledge.rows import all_rows
from rowmill_systems.parts.database import upsert_into

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

BY_EMAIL = Keyset({"email": KnowledgeUser.email}, KnowledgeUser.id, default="email")


@dataclass(frozen=True, slots=True)
class AccountPage:
    accounts: Sequence[Account]
    next: str | None


async def create_account(
    knowledge: "Knowledge",
    email: str,
    password: str,
    *,
    role: KnowledgeRole = KnowledgeRole.VIEWER,
) -> Account:
    """Create a user. Raises EmailRefused, PasswordRefused and EmailTaken."""
    email = checked_email(email)
    password_hash = await hasher_of(knowledge).hash(checked_password(password, email))
    row = {"id": uuid4(), "email": email, "password_hash": password_hash, **_as_stored(role)}

    def insert(connection: sa.Connection) -> Account:
        upsert = upsert_into(connection, KnowledgeUser).values(row).on_conflict_do_nothing(index_elements=["email"])
        if not connection.execute(upsert).rowcount:
            raise EmailTaken("there is a user with this email")
        return read_account(connection, KnowledgeUser.id == row["id"])

    account = await knowledge.mill.run(insert)
    log_event("user.created", user_id=account.id, role=account.role)
    return account


def _as_stored(role: KnowledgeRole) -> dict[str, Any]:
    """Return the values of the two columns: an administrator is an editor who is a superuser."""
    is_superuser = role is KnowledgeRole.ADMINISTRATOR
    return {"role": str(KnowledgeRole.EDITOR if is_superuser else role), "is_superuser": is_superuser}


async def find_account(knowledge: "Knowledge", user_id: UUID) -> Account:
    """Return a user. Raises AccountMissing."""
    return await knowledge.mill.run(lambda c: read_account(c, KnowledgeUser.id == user_id), write=False)


async def find_by_email(knowledge: "Knowledge", email: str) -> Account:
    """Return a user. Raises AccountMissing."""
    wanted = KnowledgeUser.email == same_email(email)
    return await knowledge.mill.run(lambda connection: read_account(connection, wanted), write=False)


# served by: the primary key, uq_users_email
def read_account(connection: sa.Connection, wanted: "sa.ColumnElement[bool]", *, lock: bool = False) -> Account:
    """Return a user, locked until the end of the transaction if wanted. Raises AccountMissing."""
    select = sa.select(KnowledgeUser).where(wanted)
    found = all_rows(connection, select.with_for_update() if lock else select)
    if not found:
        raise AccountMissing("there is no such user")
    return Account.of(found[0])


async def list_accounts(knowledge: "Knowledge", *, after: str = "", limit: int = 100) -> AccountPage:
    """Return a page of the users, by email."""
    columns = (column for column in KnowledgeUser.__table__.columns if column.name != "password_hash")
    wanted = sa.select(*columns)
    page = await knowledge.mill.run(lambda c: BY_EMAIL.read(c, wanted, after=after, limit=limit), write=False)
    return AccountPage([Account.of(KnowledgeUser(**_columns(row))) for row in page.rows], page.next)


def _columns(row: sa.RowMapping) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_")}


async def count_administrators(knowledge: "Knowledge") -> int:
    """Count who may administrate. With none, a command has to make one."""
    return len(await knowledge.mill.run(lambda connection: _administrators(connection), write=False))


async def change_account(
    knowledge: "Knowledge",
    user_id: UUID,
    *,
    role: KnowledgeRole | None = None,
    is_active: bool | None = None,
) -> Account:
    """Change what a user may do. One who is no longer active is logged out everywhere.

    Raises AccountMissing, and LastAdministrator if nobody could administrate afterwards.
    """
    values = {} if role is None else _as_stored(role)
    if is_active is not None:
        values["is_active"] = is_active
    goes = is_active is False or values.get("is_superuser") is False

    def change(connection: sa.Connection) -> Account:
        if goes:
            _keep_an_administrator(connection, user_id)
        if values:
            connection.execute(sa.update(KnowledgeUser).where(KnowledgeUser.id == user_id).values(values))
        if is_active is False:
            end_logins(connection, user_id)
        return read_account(connection, KnowledgeUser.id == user_id)

    account = await knowledge.mill.run(change)
    log_event("user.changed", user_id=user_id, role=account.role, is_active=account.is_active)
    return account


async def delete_account(knowledge: "Knowledge", user_id: UUID) -> None:
    """Delete a user, with all logins and tokens. Raises AccountMissing and LastAdministrator."""

    def delete(connection: sa.Connection) -> None:
        _keep_an_administrator(connection, user_id)
        account = read_account(connection, KnowledgeUser.id == user_id, lock=True)
        end_logins(connection, user_id)
        connection.execute(sa.delete(KnowledgeUser).where(KnowledgeUser.id == account.id))

    await knowledge.mill.run(delete)
    log_event("user.deleted", user_id=user_id)


async def set_password(knowledge: "Knowledge", user_id: UUID, password: str, *, keep: UUID | None = None) -> None:
    """Set a password, and end all logins and tokens of the user but `keep`: what was stolen with the old one is of no
    use any more. Attempts that failed are forgotten. Raises AccountMissing and PasswordRefused."""
    account = await find_account(knowledge, user_id)
    password_hash = await hasher_of(knowledge).hash(checked_password(password, account.email))

    def change(connection: sa.Connection) -> None:
        read_account(connection, KnowledgeUser.id == user_id, lock=True)
        changed = sa.update(KnowledgeUser).where(KnowledgeUser.id == user_id)
        connection.execute(changed.values(password_hash=password_hash))
        end_logins(connection, user_id, keep=keep)
        connection.execute(sa.delete(LoginFailure).where(LoginFailure.subject == user_subject(account.email)))

    await knowledge.mill.run(change)
    log_event("user.password_changed", user_id=user_id)


# served by: ix_login_tokens_user
def end_logins(connection: sa.Connection, user_id: UUID, *, keep: UUID | None = None) -> None:
    """Delete the logins and tokens of a user, but one."""
    ended = sa.delete(LoginToken).where(LoginToken.user_id == user_id)
    connection.execute(ended if keep is None else ended.where(LoginToken.id != keep))


def _keep_an_administrator(connection: sa.Connection, user_id: UUID) -> None:
    """Raise LastAdministrator if nobody else may administrate. Who may is locked, so that two can't go at once."""
    found = _administrators(connection, lock=True)
    if found == [user_id]:
        raise LastAdministrator("this is the only administrator: make another one first")


# served by: a scan of the users
def _administrators(connection: sa.Connection, *, lock: bool = False) -> list[UUID]:
    wanted = sa.select(KnowledgeUser.id).where(KnowledgeUser.is_superuser, KnowledgeUser.is_active)
    wanted = wanted.order_by(KnowledgeUser.id)
    return list(connection.scalars(wanted.with_for_update() if lock else wanted))
