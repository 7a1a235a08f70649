"""Tokens of sessions and programs. Store only their hash: a reader of the table can't log in with it."""

import hashlib
import secrets

from starlette.datastructures import Headers

TOKEN_BYTES = 32


def new_token(prefix: str = "") -> str:
    """Return a random token. A prefix lets scanners for leaked secrets recognise it."""
    return f"{prefix}{secrets.token_urlsafe(TOKEN_BYTES)}"


def hash_token(token: str) -> str:
    """Return what is stored and looked up. Nobody guesses a random token, so a fast hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def bearer_token(headers: Headers) -> str | None:
    """Return the token of `Authorization: Bearer …`."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
