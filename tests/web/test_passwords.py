"""Passwords are hashed so that a stolen table is of little use, and checked outside of the event loop."""

import asyncio
import hashlib
import threading

import pytest

from rowmill.web.login import passwords
from rowmill.web.login.passwords import PasswordCheck, PasswordChecksBusy, PasswordHasher, ScryptCost

CHEAP = ScryptCost(ln=1, r=1, p=1)
WRONG = PasswordCheck(False)


async def test_only_the_password_itself_is_right() -> None:
    hasher = PasswordHasher(CHEAP)
    stored = await hasher.hash("correct horse")
    assert await hasher.check("correct horse", stored) == PasswordCheck(True)
    for other in ("correct horsE", "correct horse ", "", "x" * 5000):
        assert await hasher.check(other, stored) == WRONG
    assert await hasher.hash("correct horse") != stored, "each has a salt of its own"


async def test_a_hash_says_how_it_was_made() -> None:
    stored = await PasswordHasher(CHEAP).hash("correct horse")
    assert stored.startswith("$scrypt$ln=1,r=1,p=1$")
    salt, digest = (passwords._decoded(part) for part in stored.split("$")[3:])
    assert digest == hashlib.scrypt(b"correct horse", salt=salt, n=2, r=1, p=1, dklen=32)


async def test_a_hash_of_another_cost_is_checked_and_reported() -> None:
    before = await PasswordHasher(CHEAP).hash("correct horse")
    dearer = PasswordHasher(ScryptCost(ln=2, r=1, p=1))
    assert await dearer.check("correct horse", before) == PasswordCheck(True, outdated=True)
    assert await dearer.check("wrong", before) == WRONG


async def test_letters_are_the_same_in_every_coding_of_a_keyboard() -> None:
    hasher = PasswordHasher(CHEAP)
    assert (await hasher.check("cafe\N{COMBINING ACUTE ACCENT}", await hasher.hash("café"))).right
    assert (await hasher.check("\ud800", await hasher.hash("\ud800"))).right


@pytest.mark.parametrize(
    "stored",
    [
        None, "", "plain", "$scrypt$ln=1,r=1,p=1$aaaaaaaa", "$scrypt$ln=0,r=1,p=1$aaaaaaaaaa$aaaaaaaaaa",
        "$scrypt$ln=40,r=8,p=1$aaaaaaaaaa$aaaaaaaaaa", "$scrypt$ln=22,r=8,p=3$aaaaaaaaaa$aaaaaaaaaa",
        "$scrypt$ln=1,r=1,p=1$aaaaaaaaa$aaaaaaaaaa",
    ],
)  # fmt: skip
async def test_nobody_logs_in_without_a_hash_that_can_be_read_and_it_takes_as_long(
    stored: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []

    def nothing(password: str, salt: bytes, cost: ScryptCost, length: int) -> bytes:
        """Return what an unknown user's password is compared with."""
        costs.append(cost)
        return bytes(length)

    monkeypatch.setattr(passwords, "_scrypt", nothing)
    assert await PasswordHasher(CHEAP).check("correct horse", stored) == WRONG
    assert costs == [CHEAP]


async def test_a_password_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1,000"):
        await PasswordHasher(CHEAP).hash("x" * 1001)


async def test_a_flood_waits_in_a_line_that_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    go, working = threading.Event(), 0

    def slow(*given: object) -> bytes:
        nonlocal working
        working += 1
        go.wait(30)
        return b""

    monkeypatch.setattr(passwords, "_scrypt", slow)
    hasher = PasswordHasher(CHEAP, at_once=1, waiting=2)
    tasks = [asyncio.create_task(hasher.check("x", None)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(PasswordChecksBusy):
        await hasher.check("x", None)
    assert working <= 1
    go.set()
    await asyncio.gather(*tasks)
    assert await hasher.check("x", None) == WRONG


def test_the_usual_cost_is_what_is_recommended() -> None:
    usual = PasswordHasher().cost
    assert (usual.memory, usual.p) == (32 * 1024**2, 3)
