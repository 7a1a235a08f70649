"""The certificates that a client trusts."""

import ssl
from functools import cache

import httpx2


@cache
def shared_ssl_context() -> ssl.SSLContext:
    """Return the context of all HTTP clients of this process. To read the certificates of all authorities takes 25 ms,
    and each client would read them again."""
    return httpx2.create_ssl_context()
