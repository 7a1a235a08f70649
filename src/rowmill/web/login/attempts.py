"""Decide whether somebody may try to log in. Pure: the application stores the attempts, by user and by address.

An attempt is counted before its password is checked. So of many that come at once, to several processes, no more than
allowed are checked. A login takes its attempt back.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class LoginLimit:
    """After `free` failed attempts each further one blocks the next for twice as long, up to `longest` seconds. A
    subject that did not fail for `forgotten` seconds begins anew."""

    free: int = 5
    first: float = 1.0
    longest: float = 300.0
    forgotten: float = 24 * 3600.0

    def block(self, failures: int) -> float:
        """Return how many seconds the next attempt has to wait."""
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.first * 2.0 ** min(beyond - 1, 64), self.longest)


@dataclass(frozen=True, slots=True)
class LoginAttempts:
    """Attempts of a user or an address since the last login."""

    failures: int = 0
    blocked_until: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoginBlocked:
    """The attempt may not be made yet. It does not lengthen the block."""

    seconds: float


def count_attempt(limit: LoginLimit, before: LoginAttempts, now: datetime) -> LoginAttempts | LoginBlocked:
    """Return the attempts with this one, or how long it has to wait."""
    if before.blocked_until is not None and before.blocked_until > now:
        return LoginBlocked((before.blocked_until - now).total_seconds())
    is_old = before.changed_at is None or (now - before.changed_at).total_seconds() > limit.forgotten
    failures = 1 if is_old else before.failures + 1
    wait = limit.block(failures)
    return LoginAttempts(failures, now + timedelta(seconds=wait) if wait else None, now)


def take_back(before: LoginAttempts) -> LoginAttempts:
    """Return the attempts without one that succeeded. Use it for addresses, which many people may share, and which
    somebody with an account of their own may guess from; forget the attempts of the user."""
    return LoginAttempts(max(before.failures - 1, 0), None, before.changed_at)


def network_of(address: str) -> str:
    """Return what attempts from an address are counted for: the address, or the /64 of IPv6 that one customer has."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
