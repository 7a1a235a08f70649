"""K8: logins are hard to guess, hard to steal, and end."""

import asyncio
import logging
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from rowmill.web.login import passwords
from rowmill.web.login.tokens import hash_token
from rowmill_systems.knowledge.accounts import account, errors, logins
from rowmill_systems.knowledge.accounts.attempts import USER_LIMIT
from rowmill_systems.knowledge.accounts.logins import (
    TokenKind,
    change_password,
    find_caller,
    log_in,
    log_out,
)
from rowmill_systems.knowledge.accounts.tokens import create_token, list_tokens, remove_expired, revoke_token
from rowmill_systems.knowledge.accounts.users import create_account, set_password
from rowmill_systems.knowledge.knowledge import Knowledge
from systems.tests.knowledge.harness import knowledge_on, scalars, sql

EMAIL, PASSWORD, ADDRESS = "ann@example.org", "correct horse battery", "192.0.2.7"
AGO = {
    "postgresql": "now() - interval '{0} seconds'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000','now','-{0} seconds')",
}


def ago(knowledge: Knowledge, seconds: float) -> str:
    return AGO["postgresql" if knowledge.settings.database_url.startswith("postgresql") else "sqlite"].format(seconds)


async def guess(knowledge: Knowledge, email: str = EMAIL, address: str | None = ADDRESS, word: str = "wrong") -> str:
    """Return the code of the refusal."""
    try:
        await log_in(knowledge, email, word, address=address)
    except (errors.WrongLogin, errors.LoginsBlocked) as error:
        return error.code
    return "done"


async def test_a_login_is_known_by_its_token_until_it_ends(knowledge: Knowledge) -> None:
    ann = await create_account(knowledge, EMAIL, PASSWORD)
    first = await log_in(knowledge, "Ann@Example.org", PASSWORD, address=ADDRESS)
    second = await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
    assert first.token != second.token
    caller = await find_caller(knowledge, first.token)
    assert caller is not None
    assert (caller.account.id, caller.kind) == (ann.id, TokenKind.SESSION)
    assert caller.account.last_login_at is not None
    await log_out(knowledge, caller)
    assert await find_caller(knowledge, first.token) is None
    assert await find_caller(knowledge, second.token) is not None
    for other in ("", "x", first.token + "x", hash_token(second.token)):
        assert await find_caller(knowledge, other) is None
    third = await find_caller(knowledge, second.token)
    assert third is not None
    token, _ = await create_token(knowledge, ann.id, "ci")
    await log_out(knowledge, third, everywhere=True)
    assert [await find_caller(knowledge, each) for each in (second.token, token)] == [None, None]


async def test_a_login_ends_by_itself(knowledge: Knowledge) -> None:
    ann = await create_account(knowledge, EMAIL, PASSWORD)
    login = await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
    assert (login.expires_at - (login.account.last_login_at or login.expires_at)).total_seconds() == 12 * 3600
    short, _ = await create_token(knowledge, ann.id, "short", days=30)
    lasting, _ = await create_token(knowledge, ann.id, "lasting")
    assert await remove_expired(knowledge) == 0
    await sql(knowledge, f"UPDATE login_tokens SET expires_at = {ago(knowledge, 1)} WHERE expires_at IS NOT NULL")
    assert [await find_caller(knowledge, each) is None for each in (login.token, short, lasting)] == [True, True, False]
    assert await remove_expired(knowledge) == 2
    assert await scalars(knowledge, "SELECT name FROM login_tokens") == ["lasting"]


async def test_nobody_learns_who_has_an_account(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown user takes as much work, gets the same answer, and is blocked alike."""
    work, scrypt = [], passwords._scrypt

    def counted(password: str, salt: bytes, cost: passwords.ScryptCost, length: int) -> bytes:
        work.append(cost)
        return scrypt(password, salt, cost, length)

    monkeypatch.setattr(passwords, "_scrypt", counted)
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        await create_account(knowledge, EMAIL, PASSWORD)
        answers = {}
        for email in (EMAIL, "nobody@example.org", "\x00\ud800"):
            work.clear()
            answers[email] = [await guess(knowledge, email, None) for _ in range(8)]
            assert len(work) == 6
        assert answers[EMAIL] == ["wrong_login"] * 6 + ["too_many_logins"] * 2
        assert len(set(map(tuple, answers.values()))) == 1


async def test_guesses_at_once_in_several_processes_are_counted_together(knowledge: Knowledge, tmp_path: Path) -> None:
    await create_account(knowledge, EMAIL, PASSWORD)
    async with knowledge_on(knowledge.settings.database_url, tmp_path) as other:
        codes = await asyncio.gather(
            *(guess(each, address=f"192.0.2.{n}") for n in range(20) for each in (knowledge, other))
        )
    assert sorted(set(codes)) == ["too_many_logins", "wrong_login"]
    assert codes.count("wrong_login") == USER_LIMIT.free + 1
    assert await guess(knowledge, word=PASSWORD) == "too_many_logins", "also with the right one, while it is blocked"


async def test_a_block_passes_and_a_login_forgets_the_guesses(knowledge: Knowledge) -> None:
    await create_account(knowledge, EMAIL, PASSWORD)
    for _ in range(6):
        await guess(knowledge)
    with pytest.raises(errors.LoginsBlocked) as blocked:
        await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
    assert blocked.value.seconds == 1
    await sql(knowledge, f"UPDATE login_failures SET blocked_until = {ago(knowledge, 0)}")
    assert await guess(knowledge, word=PASSWORD) == "done"
    assert await scalars(knowledge, "SELECT failures FROM login_failures") == [6], "of the address, without the login"


async def test_an_address_that_tries_many_names_is_blocked_and_others_are_not(knowledge: Knowledge) -> None:
    await create_account(knowledge, EMAIL, PASSWORD)
    codes = [await guess(knowledge, f"user{n}@example.org", "2001:db8::1") for n in range(31)]
    assert set(codes) == {"wrong_login"}
    assert await guess(knowledge, address="2001:db8::2", word=PASSWORD) == "too_many_logins", "of the same network"
    assert await guess(knowledge, address=ADDRESS, word=PASSWORD) == "done"
    await sql(knowledge, f"UPDATE login_failures SET updated_at = {ago(knowledge, 90_000)}")
    await remove_expired(knowledge)
    assert await scalars(knowledge, "SELECT count(*) FROM login_failures") == [0]


async def test_a_password_that_changes_during_the_login_lets_nobody_in(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await create_account(knowledge, EMAIL, PASSWORD)
    check = passwords.PasswordHasher.check

    async def changed_meanwhile(hasher: object, password: str, stored: str | None) -> passwords.PasswordCheck:
        found = await check(hasher, password, stored)  # type: ignore[arg-type]
        await set_password(knowledge, ann.id, "another horse battery")
        return found

    monkeypatch.setattr(passwords.PasswordHasher, "check", changed_meanwhile)
    assert await guess(knowledge, word=PASSWORD) == "wrong_login"
    assert await scalars(knowledge, "SELECT count(*) FROM login_tokens") == [0]


async def test_a_hash_of_an_older_cost_is_renewed_by_a_login(knowledge: Knowledge) -> None:
    older = account._hasher(2)
    await create_account(knowledge, EMAIL, PASSWORD)
    await sql(knowledge, "UPDATE users SET password_hash = :hash", hash=await older.hash(PASSWORD))
    await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
    [renewed] = await scalars(knowledge, "SELECT password_hash FROM users")
    assert renewed.startswith("$scrypt$ln=1,")
    await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
    assert await scalars(knowledge, "SELECT password_hash FROM users") == [renewed]


async def test_who_changes_their_password_stays_logged_in_there_alone(knowledge: Knowledge) -> None:
    await create_account(knowledge, EMAIL, PASSWORD)
    here, there = [await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS) for _ in range(2)]
    caller = await find_caller(knowledge, here.token)
    assert caller is not None
    with pytest.raises(errors.WrongLogin):
        await change_password(knowledge, caller, current="wrong", new="another horse battery", address=ADDRESS)
    with pytest.raises(errors.PasswordRefused):
        await change_password(knowledge, caller, current=PASSWORD, new="short", address=ADDRESS)
    assert await find_caller(knowledge, there.token) is not None
    await change_password(knowledge, caller, current=PASSWORD, new="another horse battery", address=ADDRESS)
    assert await find_caller(knowledge, there.token) is None
    assert await find_caller(knowledge, here.token) is not None
    assert await guess(knowledge, word="another horse battery") == "done"


async def test_a_stolen_session_can_not_guess_the_password(sqlite_url: str, tmp_path: Path) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        await create_account(knowledge, EMAIL, PASSWORD)
        login = await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
        caller = await find_caller(knowledge, login.token)
        assert caller is not None
        for _ in range(6):
            with pytest.raises(errors.WrongLogin):
                await change_password(knowledge, caller, current="wrong", new="another horse battery", address=None)
        with pytest.raises(errors.LoginsBlocked):
            await change_password(knowledge, caller, current=PASSWORD, new="another horse battery", address=None)


async def test_tokens_of_programs_are_listed_without_secrets_and_revoked_by_their_owner(knowledge: Knowledge) -> None:
    ann = await create_account(knowledge, EMAIL, PASSWORD)
    bob = await create_account(knowledge, "bob@example.org", PASSWORD)
    token, made = await create_token(knowledge, ann.id, "ci\x1b[31m", days=1)
    assert token.startswith("knowledge_")
    caller = await find_caller(knowledge, token)
    assert caller is not None
    assert (caller.account.id, caller.kind) == (ann.id, TokenKind.BEARER)
    [listed] = await list_tokens(knowledge, ann.id)
    assert (listed.id, listed.name) == (made.id, "ci[31m")
    assert listed.last_used_at is not None
    assert (await list_tokens(knowledge, bob.id), token in repr(listed)) == ([], False)
    with pytest.raises(errors.TokenMissing):
        await revoke_token(knowledge, bob.id, made.id)
    await revoke_token(knowledge, ann.id, made.id)
    assert await find_caller(knowledge, token) is None


async def test_the_use_of_a_token_is_noted_now_and_then(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, note = [], logins._note_use

    def counted(connection: sa.Connection, token_id: UUID) -> None:
        noted.append(token_id)
        note(connection, token_id)

    monkeypatch.setattr(logins, "_note_use", counted)
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        await create_account(knowledge, EMAIL, PASSWORD)
        login = await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
        for _ in range(3):
            assert await find_caller(knowledge, login.token) is not None
        assert len(noted) == 1
        await sql(knowledge, f"UPDATE login_tokens SET last_used_at = {ago(knowledge, 301)}")
        assert await find_caller(knowledge, login.token) is not None
        assert len(noted) == 2


async def test_nothing_of_a_person_reaches_the_log(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="rowmill")
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        ann = await create_account(knowledge, EMAIL, PASSWORD)
        login = await log_in(knowledge, EMAIL, PASSWORD, address=ADDRESS)
        token, _ = await create_token(knowledge, ann.id, "my laptop")
        await set_password(knowledge, ann.id, "another horse battery")
        for _ in range(8):
            await guess(knowledge)
    events = {getattr(record, "event", None) for record in caplog.records}
    assert {"user.created", "login.done", "login.refused", "login.blocked", "token.created"} <= events
    for secret in (EMAIL, "ann", PASSWORD, "horse", ADDRESS, login.token, token, hash_token(token), "laptop", "scrypt"):
        assert secret not in caplog.text
