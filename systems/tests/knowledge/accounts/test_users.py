"""K8: users, and what they may do."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from rowmill_systems.knowledge.accounts import errors
from rowmill_systems.knowledge.accounts.logins import find_caller, log_in
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.tokens import create_token
from rowmill_systems.knowledge.accounts.users import (
    change_account,
    count_administrators,
    create_account,
    delete_account,
    find_by_email,
    list_accounts,
    set_password,
)
from rowmill_systems.knowledge.knowledge import Knowledge
from systems.tests.knowledge.harness import knowledge_on, scalars

PASSWORD = "correct horse battery"
ADMINISTRATOR, EDITOR, VIEWER = KnowledgeRole.ADMINISTRATOR, KnowledgeRole.EDITOR, KnowledgeRole.VIEWER


async def test_a_user_is_found_by_the_email_in_any_case(knowledge: Knowledge) -> None:
    made = await create_account(knowledge, " Ann@Example.ORG ", PASSWORD, role=EDITOR)
    assert (made.email, made.role, made.is_superuser, made.is_active) == ("ann@example.org", EDITOR, False, True)
    assert await find_by_email(knowledge, "ANN@example.org") == made
    with pytest.raises(errors.EmailTaken):
        await create_account(knowledge, "ann@EXAMPLE.org", PASSWORD)
    assert await count_administrators(knowledge) == 0


async def test_an_administrator_is_a_superuser_in_the_table(knowledge: Knowledge) -> None:
    await create_account(knowledge, "ann@example.org", PASSWORD, role=ADMINISTRATOR)
    assert await scalars(knowledge, "SELECT is_superuser FROM users") == [True]
    await create_account(knowledge, "bob@example.org", PASSWORD, role=ADMINISTRATOR)
    bob = await find_by_email(knowledge, "bob@example.org")
    assert (await change_account(knowledge, bob.id, role=VIEWER)).role is VIEWER
    assert await count_administrators(knowledge) == 1


async def test_only_a_hash_of_the_password_is_stored(sqlite_url: str, tmp_path: Path) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        ann = await create_account(knowledge, "ann@example.org", PASSWORD)
        login = await log_in(knowledge, ann.email, PASSWORD, address=None)
        token, _ = await create_token(knowledge, ann.id, "ci")
        whole = await scalars(knowledge, "SELECT password_hash || email || role FROM users")
        whole += await scalars(knowledge, "SELECT token_hash || name || kind FROM login_tokens")
        assert len(whole) == 3
        for secret in (PASSWORD, login.token, token):
            assert secret not in "".join(whole)


@pytest.mark.parametrize(
    ("email", "password", "error"),
    [
        ("ann", PASSWORD, errors.EmailRefused),
        ("a b@example.org", PASSWORD, errors.EmailRefused),
        ("ann@exa\x00mple.org", PASSWORD, errors.EmailRefused),
        ("ann@example.org\ud800", PASSWORD, errors.EmailRefused),
        ("a" * 320 + "@example.org", PASSWORD, errors.EmailRefused),
        ("ann@example.org", "short", errors.PasswordRefused),
        ("ann@example.org", "x" * 1001, errors.PasswordRefused),
        ("ann@example.org", "Ann@example.org", errors.PasswordRefused),
        ("ann@example.org", "aaaaaaaaaaaa", errors.PasswordRefused),
    ],
)
async def test_what_can_not_be_an_account_is_refused(
    sqlite_url: str, tmp_path: Path, email: str, password: str, error: type[Exception]
) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        with pytest.raises(error):
            await create_account(knowledge, email, password)
        assert await scalars(knowledge, "SELECT count(*) FROM users") == [0]


async def test_the_last_administrator_stays(knowledge: Knowledge) -> None:
    ann = await create_account(knowledge, "ann@example.org", PASSWORD, role=ADMINISTRATOR)
    bob = await create_account(knowledge, "bob@example.org", PASSWORD, role=ADMINISTRATOR)
    await change_account(knowledge, bob.id, is_active=False)
    for attempt in (
        change_account(knowledge, ann.id, role=EDITOR),
        change_account(knowledge, ann.id, is_active=False),
        delete_account(knowledge, ann.id),
    ):
        with pytest.raises(errors.LastAdministrator):
            await attempt
    assert (await find_by_email(knowledge, ann.email)).is_superuser
    await delete_account(knowledge, bob.id)


async def test_two_administrators_who_go_at_once_do_not_both_go(knowledge: Knowledge) -> None:
    users = [await create_account(knowledge, f"{name}@example.org", PASSWORD, role=ADMINISTRATOR) for name in "ab"]
    for _ in range(5):  # the first time, one of them still waits for a connection
        going = [change_account(knowledge, user.id, role=VIEWER) for user in users]
        found = await asyncio.gather(*going, return_exceptions=True)
        assert sorted(isinstance(each, errors.LastAdministrator) for each in found) == [False, True]
        assert await count_administrators(knowledge) == 1
        for user in users:
            await change_account(knowledge, user.id, role=ADMINISTRATOR)


async def test_who_is_closed_or_deleted_is_logged_out_everywhere(knowledge: Knowledge) -> None:
    for name, leave in (
        ("ann", lambda user: change_account(knowledge, user.id, is_active=False)),
        ("bob", lambda user: delete_account(knowledge, user.id)),
    ):
        user = await create_account(knowledge, f"{name}@example.org", PASSWORD)
        login = await log_in(knowledge, user.email, PASSWORD, address=None)
        token, _ = await create_token(knowledge, user.id, "ci")
        await leave(user)
        assert [await find_caller(knowledge, each) for each in (login.token, token)] == [None, None]
        with pytest.raises(errors.WrongLogin):
            await log_in(knowledge, user.email, PASSWORD, address=None)
    await change_account(knowledge, (await find_by_email(knowledge, "ann@example.org")).id, is_active=True)
    await log_in(knowledge, "ann@example.org", PASSWORD, address=None)
    assert await find_caller(knowledge, login.token) is None


async def test_a_new_password_ends_all_logins_and_tokens(knowledge: Knowledge) -> None:
    ann = await create_account(knowledge, "ann@example.org", PASSWORD)
    login = await log_in(knowledge, ann.email, PASSWORD, address=None)
    token, _ = await create_token(knowledge, ann.id, "ci")
    await set_password(knowledge, ann.id, "another horse battery")
    assert [await find_caller(knowledge, each) for each in (login.token, token)] == [None, None]
    with pytest.raises(errors.WrongLogin):
        await log_in(knowledge, ann.email, PASSWORD, address=None)
    await log_in(knowledge, ann.email, "another horse battery", address=None)


async def test_users_are_listed_by_email_page_by_page_without_their_passwords(knowledge: Knowledge) -> None:
    for name in ("cid", "ann", "bob"):
        await create_account(knowledge, f"{name}@example.org", PASSWORD)
    first = await list_accounts(knowledge, limit=2)
    assert [each.email for each in first.accounts] == ["ann@example.org", "bob@example.org"]
    assert "scrypt" not in repr(first)
    second = await list_accounts(knowledge, after=first.next or "", limit=2)
    assert ([each.email for each in second.accounts], second.next) == (["cid@example.org"], None)


async def test_a_user_who_is_not_there_is_missed(sqlite_url: str, tmp_path: Path) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        nobody = uuid4()
        for attempt in (
            change_account(knowledge, nobody, role=EDITOR),
            change_account(knowledge, nobody, is_active=False),
            delete_account(knowledge, nobody),
            set_password(knowledge, nobody, PASSWORD),
            create_token(knowledge, nobody, "ci"),
        ):
            with pytest.raises(errors.AccountMissing):
                await attempt


async def test_the_table_takes_no_other_roles(knowledge: Knowledge) -> None:
    await create_account(knowledge, "ann@example.org", PASSWORD)
    with pytest.raises(sa.exc.IntegrityError):
        await knowledge.mill.run(lambda c: c.execute(sa.text("UPDATE users SET role = 'king'")).close())
