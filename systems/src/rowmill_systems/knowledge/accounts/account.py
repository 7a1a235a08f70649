"""A user as others see it, and what emails and passwords have to be."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from rowmill.web.login.passwords import LONGEST_PASSWORD, PasswordHasher, ScryptCost
from rowmill_systems.knowledge.accounts.errors import EmailRefused, PasswordRefused
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.models import KnowledgeUser
from rowmill_systems.parts.values import storable

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
LONGEST_EMAIL = 320
SHORTEST_PASSWORD = 10


@dataclass(frozen=True, slots=True)
class Account:
    """A user, without the hash of the password."""

    id: UUID
    email: str
    role: KnowledgeRole
    is_active: bool
    created_at: datetime
    last_login_at: datetime | None

    @classmethod
    def of(cls, user: KnowledgeUser) -> "Account":
        role = KnowledgeRole.ADMINISTRATOR if user.is_superuser else KnowledgeRole(user.role)
        return cls(user.id, user.email, role, user.is_active, user.created_at, user.last_login_at)

    @property
    def is_superuser(self) -> bool:
        return self.role is KnowledgeRole.ADMINISTRATOR


def hasher_of(knowledge: "Knowledge") -> PasswordHasher:
    """Return the hasher of this process, at the cost of the settings."""
    return _hasher(knowledge.settings.password_cost)


@cache
def _hasher(cost: int) -> PasswordHasher:
    return PasswordHasher(ScryptCost(ln=cost))


def same_email(email: str) -> str:
    """Return an email as it is stored and looked up: in one coding, without case and what no database stores."""
    return unicodedata.normalize("NFKC", str(storable(email))).strip().lower()


def checked_email(email: str) -> str:
    """Return an email as it is stored. Raises EmailRefused."""
    found = same_email(email)
    if not EMAIL.fullmatch(found) or not email.strip().isprintable() or len(found) > LONGEST_EMAIL:
        raise EmailRefused("write an email, as ann@example.org")
    return found


def checked_password(password: str, email: str) -> str:
    """Return the password. Raises PasswordRefused if it is easily guessed, or too long."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise PasswordRefused(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} characters")
    if same_email(password) == same_email(email) or len(set(password)) < 4:
        raise PasswordRefused("this password is too easily guessed")
    return password
