"""Fetch addresses that strangers chose: bounded in time and bytes, and never from inside your network.

    from rowmill_systems.parts.fetching import Fetcher, FetchFailed

    async with Fetcher("example-reader/1.0 (+https://example.org/bot)", allow_private=True) as fetcher:
        page = await fetcher.get(address + "?action=wbsearchentities&search=Ada&language=en")
        print(page.status, page.content_type, len(page.body))
        again = await fetcher.get(page.url, etag=page.etag, last_modified=page.last_modified)
        print(again.not_modified)

    async with Fetcher("example-reader/1.0") as fetcher:         # without allow_private, as you would run it
        try:
            await fetcher.get(address)
        except FetchFailed as error:
            print(error.code, error.retryable)                   # address_refused False

A host is resolved once per connection, all of its addresses are checked, and the connection goes to a checked one: a
name that changes its address in between changes nothing. Each redirect is checked in the same way. Packed bodies are
unpacked piece by piece, so that a small one can't become a large one. Proxies of the environment are not used.
"""

from rowmill_systems.parts.fetching.addresses import is_inside
from rowmill_systems.parts.fetching.errors import FetchFailed
from rowmill_systems.parts.fetching.fetcher import FetchedPage, Fetcher, FetchLimits
from rowmill_systems.parts.fetching.urls import host_of

__all__ = ["FetchFailed", "FetchLimits", "FetchedPage", "Fetcher", "host_of", "is_inside"]
