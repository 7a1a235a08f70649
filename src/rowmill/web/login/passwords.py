"""Hash and check passwords with scrypt, in threads of their own.

hasher = PasswordHasher()
stored = await hasher.hash(password)
check = await hasher.check(password, stored)  # check.right, check.outdated
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import rowmill as rm

T = TypeVar("T")
STORED = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{8,128})\$([A-Za-z0-9+/]{8,128})")
"""The format of password hashes that other libraries write, too."""
LONGEST_PASSWORD = 1000
SALT_BYTES, HASH_BYTES = 16, 32
MOST_MEMORY = 1024**3
"""A stored hash that takes more, in all its passes, is not checked."""


class PasswordChecksBusy(rm.TransientError):
    """Too many passwords wait to be checked."""

    code = "busy"


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What one hash costs: 128 · r · 2^ln bytes of memory, p times. The default is 32 MB three times."""

    ln: int = 15
    r: int = 8
    p: int = 3

    @property
    def memory(self) -> int:
        return 128 * self.r << self.ln


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    right: bool
    outdated: bool = False
    """The password is right, and its hash was made at another cost: store a new one."""


@dataclass(frozen=True, slots=True)
class _StoredHash:
    cost: ScryptCost
    salt: bytes
    digest: bytes


class PasswordHasher:
    """Hashes at most `at_once` passwords at the same time, and raises PasswordChecksBusy if more than `waiting` wait.

    So a flood of logins takes neither all processors nor all memory.
    """

    def __init__(self, cost: ScryptCost | None = None, *, at_once: int = 2, waiting: int = 50) -> None:
        self.cost = cost or ScryptCost()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._most, self._under_way = at_once + waiting, 0

    async def hash(self, password: str) -> str:
        """Return `$scrypt$ln=15,r=8,p=3$salt$hash`. Raises ValueError if the password is too long."""
        if len(password) > LONGEST_PASSWORD:
            raise ValueError(f"a password has at most {LONGEST_PASSWORD:,} characters")
        salt = secrets.token_bytes(SALT_BYTES)
        digest = await self._in_thread(lambda: _scrypt(password, salt, self.cost, HASH_BYTES))
        return f"$scrypt$ln={self.cost.ln},r={self.cost.r},p={self.cost.p}${_encoded(salt)}${_encoded(digest)}"

    async def check(self, password: str, stored: str | None) -> PasswordCheck:
        """Compare a password with a stored hash. None, for a user who is unknown or has no password, takes as long."""
        known = _parsed(stored or "")
        against = known or _StoredHash(self.cost, secrets.token_bytes(SALT_BYTES), bytes(HASH_BYTES))
        given = password[:LONGEST_PASSWORD]
        found = await self._in_thread(lambda: _scrypt(given, against.salt, against.cost, len(against.digest)))
        same = hmac.compare_digest(found, against.digest)
        right = same and known is not None and len(password) <= LONGEST_PASSWORD
        return PasswordCheck(right, right and against.cost != self.cost)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._under_way >= self._most:
            raise PasswordChecksBusy("too many people log in at once: try again in a moment")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1


def _scrypt(password: str, salt: bytes, cost: ScryptCost, length: int) -> bytes:
    # The same letters come in several codings from keyboards of different systems.
    text = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    room = cost.memory + 128 * cost.r * (cost.p + 2) + 1024
    return hashlib.scrypt(text, salt=salt, n=1 << cost.ln, r=cost.r, p=cost.p, maxmem=room, dklen=length)


def _parsed(stored: str) -> _StoredHash | None:
    found = STORED.fullmatch(stored)
    if found is None:
        return None
    ln, r, p = map(int, found.groups()[:3])
    cost = ScryptCost(ln, r, p)
    if not (ln and r and p) or cost.memory * p > MOST_MEMORY:
        return None
    try:
        return _StoredHash(cost, _decoded(found[4]), _decoded(found[5]))
    except binascii.Error:
        return None


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
