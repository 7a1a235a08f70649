"""Addresses as they are fetched."""

from dataclasses import dataclass

import httpx2

from rowmill_systems.parts.fetching.errors import FetchFailed

USUAL_PORTS = {"http": 80, "https": 443}
LONGEST_URL = 8000


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """A checked address, without its fragment and credentials."""

    url: httpx2.URL
    userinfo: bytes = b""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.url.scheme, self.url.host, self.port

    @property
    def port(self) -> int:
        return self.url.port or USUAL_PORTS[self.url.scheme]

    @property
    def host(self) -> str:
        """In lower case, with a port that is not the usual one."""
        name = self.url.raw_host.decode("ascii")
        name = f"[{name}]" if ":" in name else name
        return name if self.url.port in (None, USUAL_PORTS[self.url.scheme]) else f"{name}:{self.url.port}"


def target_of(text: str) -> FetchTarget:
    """Check an address. Raises FetchFailed with the code `bad_address`."""
    if len(text) > LONGEST_URL:
        raise FetchFailed("bad_address")
    try:
        url = httpx2.URL(text.strip())
        usable = url.scheme in USUAL_PORTS and bool(url.host)
        userinfo = url.userinfo
        bare = url.copy_with(fragment=None, username=None, password=None) if usable else url
    except (httpx2.InvalidURL, ValueError, TypeError, UnicodeError):
        usable = False
    if not usable:
        raise FetchFailed("bad_address")
    return FetchTarget(bare, userinfo)


def redirect_target(at: FetchTarget, location: str) -> FetchTarget:
    """Return where a redirect leads. Credentials in it are dropped: no server chooses with which ones we come."""
    if not location.strip() or len(location) > LONGEST_URL:
        raise FetchFailed("bad_redirect", host=at.host)
    try:
        joined = at.url.join(location.strip())
    except (httpx2.InvalidURL, ValueError, TypeError, UnicodeError):
        raise FetchFailed("bad_redirect", host=at.host) from None
    if joined.scheme not in USUAL_PORTS:
        raise FetchFailed("scheme_refused", host=at.host)
    try:
        return FetchTarget(target_of(str(joined)).url)
    except FetchFailed:
        raise FetchFailed("bad_redirect", host=at.host) from None


def host_of(url: str) -> str:
    """Return the host of an address, in lower case, with a port that is not the usual one. Raises FetchFailed."""
    return target_of(url).host
