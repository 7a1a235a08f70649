"""What makes an article the same article, and its text the same text."""

import hashlib
from collections.abc import Iterable

LONGEST_IDENTITY = 1000
"""Bytes. PostgreSQL indexes no text of more than about 2,700."""
LINK = "link:"


def stored_identity(identity: str) -> str:
    """Return the identity as the table has it. A longer one than an index takes becomes its hash."""
    if len(identity.encode("utf-8", "replace")) <= LONGEST_IDENTITY:
        return identity
    return f"sha256:{hashed([identity])}"


def by_link(url: str) -> str:
    """Return the identity of an article of which only the link is known: one that was there before articles."""
    return stored_identity(LINK + url)


def text_hash(title: str | None, text: str | None) -> str:
    """Return the hash of what a classifier reads."""
    return hashed([title, text])


def hashed(parts: Iterable[str | None]) -> str:
    """Return a hash of texts, in their order. None differs from an empty text."""
    digest = hashlib.sha256()
    for part in parts:
        data = None if part is None else part.encode("utf-8", "replace")
        digest.update(b"-" if data is None else f"{len(data)}:".encode() + data)
    return digest.hexdigest()
