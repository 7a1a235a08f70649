"""Fetches are checked, bounded and conditional. Against a real server on loopback."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from demos.articles.feed_server import FeedServer, MadeFeed, serving
from rowmill_systems.parts.fetching import Fetcher, FetchFailed, FetchLimits, host_of
from rowmill_systems.parts.fetching.errors import retry_after_seconds

AGENT = "tests/1.0"
LIMITS = FetchLimits(seconds=20, max_bytes=2_000_000)


@pytest.fixture
async def feeds() -> AsyncIterator[FeedServer]:
    async with serving([MadeFeed("/a"), MadeFeed("/b", host=1)], hosts=2) as server:
        yield server


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher(AGENT, limits=LIMITS, allow_private=True) as fetcher:
        yield fetcher


async def failure(fetcher: Fetcher, url: str, **given: str) -> FetchFailed:
    with pytest.raises(FetchFailed) as failed:
        await fetcher.get(url, **given)  # type: ignore[arg-type]
    return failed.value


async def test_a_page_comes_with_its_headers(feeds: FeedServer, fetcher: Fetcher) -> None:
    page = await fetcher.get(feeds.url("/a"), accept="application/rss+xml")

    assert (page.status, page.url, page.permanent_url) == (200, feeds.url("/a"), None)
    assert page.body == feeds.body(feeds.feeds["/a"])
    assert page.content_type == "application/rss+xml; charset=utf-8"
    asked = feeds.seen[-1].headers
    assert (asked["user-agent"], asked["accept"], asked["accept-encoding"]) == (
        AGENT,
        "application/rss+xml",
        "gzip, deflate, br",
    )


async def test_validators_are_sent_as_they_came(feeds: FeedServer, fetcher: Fetcher) -> None:
    first = await fetcher.get(feeds.url("/a"))
    again = await fetcher.get(feeds.url("/a"), etag=first.etag, last_modified=first.last_modified)

    assert (again.status, again.body) == (304, b"")
    asked = feeds.seen[-1].headers
    assert (asked["if-none-match"], asked["if-modified-since"]) == (first.etag, first.last_modified)
    assert (first.etag or "").startswith('W/"')


async def test_a_validator_that_would_be_a_second_header_is_not_sent(feeds: FeedServer, fetcher: Fetcher) -> None:
    await fetcher.get(feeds.url("/a"), etag='"x"\r\nCookie: a=b', last_modified="\N{SNOWMAN}")

    assert not {"if-none-match", "if-modified-since", "cookie"} & feeds.seen[-1].headers.keys()


@pytest.mark.parametrize("packing", ["gzip", "br", "deflate"])
async def test_a_packed_page_is_unpacked(feeds: FeedServer, fetcher: Fetcher, packing: str) -> None:
    feeds.feeds["/a"].packing = packing

    assert (await fetcher.get(feeds.url("/a"))).body == feeds.body(feeds.feeds["/a"])


@pytest.mark.parametrize(
    ("behaviour", "code", "retryable"),
    [
        ("gone", "http_410", False),
        ("missing", "http_404", False),
        ("error", "http_500", True),
        ("limited", "http_429", True),
        ("gzip_bomb", "too_large", False),
        ("huge", "too_large", False),
        ("not_gzip", "bad_encoding", False),
        ("loop", "too_many_redirects", False),
        ("cut", "bad_response", True),
        ("garbage", "bad_response", True),
    ],
)
async def test_each_failure_has_a_code(
    feeds: FeedServer, fetcher: Fetcher, behaviour: str, code: str, retryable: bool
) -> None:
    feeds.feeds["/a"].behaviour = behaviour
    error = await failure(fetcher, feeds.url("/a"))

    assert (error.code, error.retryable) == (code, retryable)
    assert "127.0.0.1" not in str(error)


async def test_a_large_body_is_not_read_to_its_end(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour = "huge"
    await failure(fetcher, feeds.url("/a"))

    assert feeds.counts.sent["/a"] < 20_000_000  # of a hundred


@pytest.mark.parametrize("behaviour", ["drip", "hang"])
async def test_a_server_that_drips_is_ended(feeds: FeedServer, behaviour: str) -> None:
    feeds.feeds["/a"].behaviour = behaviour
    async with Fetcher(AGENT, limits=FetchLimits(seconds=0.3), allow_private=True) as fetcher:
        error = await failure(fetcher, feeds.url("/a"))

    assert (error.code, error.retryable) == ("timed_out", True)
    assert feeds.counts.requests["/a"] == 1


async def test_the_time_limit_covers_all_redirects(feeds: FeedServer) -> None:
    feed = feeds.feeds["/a"]
    feed.behaviour, feed.latency = "loop", 0.2
    async with Fetcher(AGENT, limits=FetchLimits(seconds=0.5, redirects=1000), allow_private=True) as fetcher:
        assert (await failure(fetcher, feeds.url("/a"))).code == "timed_out"


@pytest.mark.parametrize(("behaviour", "seconds"), [("limited", 120), ("busy", 120)])
async def test_retry_after_is_read_as_seconds_and_as_a_date(
    feeds: FeedServer, fetcher: Fetcher, behaviour: str, seconds: float
) -> None:
    feed = feeds.feeds["/a"]
    feed.behaviour, feed.retry_after = behaviour, seconds
    error = await failure(fetcher, feeds.url("/a"))

    assert error.retry_after == pytest.approx(seconds, abs=5)
    assert error.host == host_of(feeds.url("/a"))


def test_a_strange_retry_after_counts_as_none() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)

    assert retry_after_seconds(format_datetime(now + timedelta(hours=1), usegmt=True), now) == 3600
    assert retry_after_seconds(format_datetime(now - timedelta(hours=1), usegmt=True), now) == 0
    for odd in (None, "", "soon", "-5", "1e9", "\u0663", "Mon, 99 Foo 2030"):
        assert retry_after_seconds(odd, now) is None


async def test_a_redirect_is_followed_and_a_permanent_one_reported(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "moved", feeds.url("/b")
    page = await fetcher.get(feeds.url("/a"))

    assert (page.url, page.permanent_url) == (feeds.url("/b"), feeds.url("/b"))


async def test_a_temporary_redirect_is_not_reported_nor_what_follows_it(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.add(MadeFeed("/start", behaviour="elsewhere", to="/a"))
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "moved", feeds.url("/b")
    page = await fetcher.get(feeds.url("/start"))

    assert (page.url, page.permanent_url) == (feeds.url("/b"), None)


async def test_a_permanent_redirect_before_a_temporary_one_is_reported(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.add(MadeFeed("/start", behaviour="moved", to="/a"))
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "elsewhere", feeds.url("/b")
    page = await fetcher.get(feeds.url("/start"))

    assert (page.url, page.permanent_url) == (feeds.url("/b"), feeds.url("/a"))


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("file:///etc/passwd", "scheme_refused"),
        ("gopher://127.0.0.1:70/", "scheme_refused"),
        ("javascript:alert(1)", "scheme_refused"),
        ("", "bad_redirect"),
        ("http://[::1", "bad_redirect"),
        ("http://a" + "a" * 9000, "bad_redirect"),
    ],
)
async def test_a_redirect_to_something_else_is_refused(
    feeds: FeedServer, fetcher: Fetcher, location: str, code: str
) -> None:
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "elsewhere", location

    assert (await failure(fetcher, feeds.url("/a"))).code == code


async def test_credentials_go_to_their_own_host_only(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "elsewhere", feeds.url("/b").replace("//", "//spy:spy@")
    url = feeds.url("/a").replace("//", "//us%40er:pa%3Ass@")
    page = await fetcher.get(url, headers={"X-Key": "secret"})

    first, second = feeds.seen[-2:]
    assert first.headers["authorization"] == "Basic " + base64.b64encode(b"us@er:pa:ss").decode()
    assert first.headers["x-key"] == "secret"
    assert not {"authorization", "x-key", "cookie"} & second.headers.keys()
    assert "@" not in page.url


async def test_a_permanent_redirect_keeps_the_credentials_of_its_own_host_and_does_not_leave_them(
    feeds: FeedServer, fetcher: Fetcher
) -> None:
    url = feeds.url("/a").replace("//", "//us%40er:pa%3Ass@")
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "moved", feeds.base() + "/new"
    feeds.add(MadeFeed("/new"))
    page = await fetcher.get(url)
    assert page.permanent_url == url.replace("/a", "/new")
    assert feeds.seen[-1].headers["authorization"] == "Basic " + base64.b64encode(b"us@er:pa:ss").decode()

    feeds.feeds["/a"].to = feeds.url("/b").replace("//", "//spy:spy@")
    away = await fetcher.get(url)
    assert (away.url, away.permanent_url) == (feeds.url("/b"), None)


async def test_validators_go_to_the_address_that_gave_them_only(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "elsewhere", feeds.url("/b")
    first = await fetcher.get(feeds.url("/a"))
    again = await fetcher.get(feeds.url("/a"), etag=first.etag, validators_from=first.url)

    assert again.not_modified
    assert [request.headers.get("if-none-match") for request in feeds.seen[-2:]] == [None, first.etag]
    feeds.feeds["/a"].behaviour = ""
    assert (await fetcher.get(feeds.url("/a"), etag=first.etag, validators_from=first.url)).status == 200
    assert "if-none-match" not in feeds.seen[-1].headers


async def test_not_modified_without_a_question_is_no_answer(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour = "unchanged"

    assert (await failure(fetcher, feeds.url("/a"))).code == "bad_response"
    assert (await fetcher.get(feeds.url("/a"), etag='"x"')).not_modified


@pytest.mark.parametrize(
    "url", ["", "feed.xml", "/etc/passwd", "file:///etc/passwd", "ftp://host/", "http://", "http://[::1/", "x" * 9000]
)
async def test_an_address_that_is_none_is_refused(fetcher: Fetcher, url: str) -> None:
    error = await failure(fetcher, url)

    assert (error.code, error.retryable) == ("bad_address", False)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
async def test_no_spelling_of_loopback_is_connected_to(feeds: FeedServer, host: str) -> None:
    async with Fetcher(AGENT, limits=LIMITS) as fetcher:
        error = await failure(fetcher, f"http://{host}:{feeds.ports[0]}/a")

    assert (error.code, error.retryable) == ("address_refused", False)
    assert not feeds.counts.requests


async def test_an_octal_address_is_none() -> None:
    async with Fetcher(AGENT) as fetcher:
        assert (await failure(fetcher, "http://0177.0.0.1/")).code == "bad_address"


def resolver(*answers: Sequence[str]):  # type: ignore[no-untyped-def]
    """Return a resolver that answers the first list at the first question, and so on."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def test_one_bad_address_among_good_ones_refuses_the_host(feeds: FeedServer) -> None:
    async with Fetcher(AGENT, limits=LIMITS, resolve=resolver(["8.8.8.8", "10.0.0.1"])) as fetcher:
        assert (await failure(fetcher, "http://mixed.example/")).code == "address_refused"


async def test_a_redirect_inside_is_refused() -> None:
    """The first host counts as one outside, the second does not."""
    async with (
        serving([MadeFeed("/a", behaviour="elsewhere", to="http://inside.example/secret")]) as feeds,
        outside_fetcher(feeds, {"inside.example": ["169.254.169.254"]}) as fetcher,
    ):
        error = await failure(fetcher, f"http://outside.example:{feeds.ports[0]}/a")

        assert (error.code, error.host) == ("address_refused", "inside.example")
        assert feeds.counts.requests["/a"] == 1


@asynccontextmanager
async def outside_fetcher(feeds: FeedServer, hosts: dict[str, list[str]]) -> AsyncIterator[Fetcher]:
    """A fetcher for which 127.0.0.1 is the address of a server outside, and everything else inside is inside."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return hosts.get(host, ["127.0.0.1"])

    fetcher = Fetcher(AGENT, limits=LIMITS, resolve=resolve)
    backend, checked = fetcher._backend, fetcher._backend.checked

    def lenient(addresses):  # type: ignore[no-untyped-def]
        return addresses if {str(each) for each in addresses} == {"127.0.0.1"} else checked(addresses)

    backend.checked = lenient  # type: ignore[method-assign]
    async with fetcher:
        yield fetcher


async def test_a_name_is_resolved_once_per_connection_and_what_was_checked_is_connected_to(feeds: FeedServer) -> None:
    """Rebinding: a second answer of the resolver would lead elsewhere, and nobody asks for it."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["0.0.0.0"]

    async with Fetcher(AGENT, limits=LIMITS, allow_private=True, resolve=resolve) as fetcher:
        url = f"http://rebinding.example:{feeds.ports[0]}/a"
        page = await fetcher.get(url)
        assert (page.status, asked) == (200, ["rebinding.example"])
        # The next connection resolves and checks again.
        assert (await failure(fetcher, url)).code == "address_refused"
    assert feeds.seen[-1].headers["host"] == f"rebinding.example:{feeds.ports[0]}"


async def test_a_host_without_an_address_is_a_matter_of_dns() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    async with Fetcher(AGENT, resolve=resolve) as fetcher:
        error = await failure(fetcher, "http://nowhere.example/")
    async with Fetcher(AGENT, resolve=resolver([])) as fetcher:
        nothing = await failure(fetcher, "http://nowhere.example/")

    assert (error.code, error.retryable, nothing.code) == ("dns", True, "dns")


async def test_a_host_that_does_not_answer_at_one_address_is_tried_at_the_next(feeds: FeedServer) -> None:
    async with Fetcher(
        AGENT, limits=LIMITS, allow_private=True, resolve=resolver(["127.0.0.2", "127.0.0.1"])
    ) as fetcher:
        assert (await fetcher.get(f"http://two.example:{feeds.ports[0]}/a")).status == 200


async def test_a_closed_port_is_unreachable(fetcher: Fetcher) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()

    assert (await failure(fetcher, f"http://127.0.0.1:{port}/")).code == "unreachable"


async def test_a_server_without_tls_is_a_matter_of_tls(fetcher: Fetcher) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 this is not TLS\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert (await failure(fetcher, f"https://127.0.0.1:{port}/")).code == "tls"


async def test_a_proxy_of_the_environment_is_not_used(feeds: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Fetcher(AGENT, allow_private=True) as fetcher:
        assert (await fetcher.get(feeds.url("/a"))).status == 200


async def test_each_hop_asks_for_a_permit(feeds: FeedServer, fetcher: Fetcher) -> None:
    feeds.feeds["/a"].behaviour, feeds.feeds["/a"].to = "elsewhere", feeds.url("/b")
    hosts: list[str] = []

    @asynccontextmanager
    async def permit(host: str) -> AsyncIterator[None]:
        hosts.append(host)
        yield

    await fetcher.get(feeds.url("/a"), permit=permit)

    assert hosts == [host_of(feeds.url("/a")), host_of(feeds.url("/b"))]


def test_a_host_is_named_in_one_way() -> None:
    assert host_of("HTTP://Example.ORG:80/x") == host_of("http://example.org") == "example.org"
    assert host_of("https://example.org:8443/") == "example.org:8443"
    assert host_of("http://b\u00fccher.example/") == "xn--bcher-kva.example"
    assert host_of("http://[2001:db8::1]:81/") == "[2001:db8::1]:81"
