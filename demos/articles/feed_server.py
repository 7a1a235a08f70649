"""A server on loopback with feeds of all kinds, misbehaving ones among them. It counts what it is asked."""

import asyncio
import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import brotli

from demos.articles.feed_formats import TYPES, WRITERS, FeedStyle, entity_bomb, newest_first, page
from demos.articles.feed_texts import article

HUGE_BYTES = 100 * 1024 * 1024
BOMB_BYTES = 200 * 1024 * 1024
CHUNK = 64 * 1024
MANY = 10_000
MISBEHAVIOURS = (
    "moved", "elsewhere", "gone", "limited", "busy", "error", "missing", "drip", "hang", "cut", "gzip_bomb",
    "entity_bomb", "html", "huge", "many", "broken_xml", "wild_dates", "loop", "empty", "garbage", "not_gzip",
)  # fmt: skip


@dataclass(slots=True)
class MadeFeed:
    """A feed of the server, and how it answers."""

    path: str
    format: str = "rss"
    """rss, atom, rdf or json."""
    host: int = 0
    entries: int = 20
    behaviour: str = ""
    """One of MISBEHAVIOURS, or empty."""
    packing: str = ""
    """gzip, br, deflate or empty."""
    validators: bool = True
    """Whether it gives an ETag and Last-Modified, and answers 304."""
    style: FeedStyle = field(default_factory=FeedStyle)
    retry_after: float = 1.0
    latency: float = 0.0
    to: str = ""
    """Where `moved` and `elsewhere` lead."""
    first: int = 0
    """The number of its oldest article."""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FeedCounts:
    """What the server was asked."""

    requests: Counter[str] = field(default_factory=Counter)
    """By path."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By path and status."""
    open: Counter[int] = field(default_factory=Counter)
    most_open: Counter[int] = field(default_factory=Counter)
    """The most requests that were open at once, by host."""
    out_of_turn: int = 0
    """Requests to a host before the end of its Retry-After."""
    dripped: int = 0
    """Bytes that were sent one by one."""
    sent: Counter[str] = field(default_factory=Counter)
    """Bytes of bodies, by path."""

    @property
    def most_per_host(self) -> int:
        return max(self.most_open.values(), default=0)


@dataclass(frozen=True, slots=True)
class FeedRequest:
    path: str
    headers: dict[str, str]


class FeedServer:
    """Serves feeds from several hosts, which are ports of 127.0.0.1. Use `serving`."""

    def __init__(self, feeds: Iterable[MadeFeed], hosts: int, now: datetime | None = None) -> None:
        self.feeds = {feed.path: feed for feed in feeds}
        self.hosts = max([hosts, *(feed.host + 1 for feed in self.feeds.values())])
        self.now = (now or datetime.now(UTC)).replace(microsecond=0)
        self.counts = FeedCounts()
        self.seen: list[FeedRequest] = []
        """The last requests, for tests that look at headers."""
        self.ports: list[int] = []
        self.release = asyncio.Event()
        """Set it to end requests that hang or drip."""
        self._servers: list[asyncio.Server] = []
        self._held_until: dict[int, float] = {}
        self._bodies: dict[tuple[str, int, int], bytes] = {}

    async def start(self) -> None:
        for host in range(self.hosts):
            server = await asyncio.start_server(self._handler(host), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self.release.set()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)

    def base(self, host: int = 0) -> str:
        return f"http://127.0.0.1:{self.ports[host]}"

    def url(self, path: str) -> str:
        return self.base(self.feeds[path].host) + path

    @property
    def urls(self) -> list[str]:
        return [self.url(path) for path in self.feeds]

    def add(self, feed: MadeFeed) -> str:
        self.feeds[feed.path] = feed
        return self.url(feed.path)

    def publish(self, path: str, articles: int = 1) -> None:
        """Add articles to a feed, and let its oldest ones go."""
        self.feeds[path].first += articles

    def _handler(self, host: int):  # type: ignore[no-untyped-def]
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            counts = self.counts
            try:
                request = await read_feed_request(reader)
                if request is None:
                    return
                counts.open[host] += 1
                counts.most_open[host] = max(counts.most_open[host], counts.open[host])
                try:
                    await self._answer(host, request, writer)
                finally:
                    counts.open[host] -= 1
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                pass  # the client has had enough
            finally:
                writer.close()
                with suppress(ConnectionError, TimeoutError):
                    await writer.wait_closed()

        return handle

    async def _answer(self, host: int, request: FeedRequest, writer: asyncio.StreamWriter) -> None:
        self.seen = [*self.seen[-199:], request]
        path = request.path.partition("?")[0]
        self.counts.requests[path] += 1
        clock = asyncio.get_running_loop().time()
        if clock < self._held_until.get(host, 0.0):
            self.counts.out_of_turn += 1
        feed = self.feeds.get(path)
        if feed is None or feed.host != host:
            await self._send(writer, path, 404, b"no such feed", {"Content-Type": "text/plain"})
            return
        if feed.latency:
            await asyncio.sleep(feed.latency)
        match feed.behaviour:
            case "moved" | "elsewhere":
                status = 301 if feed.behaviour == "moved" else 302
                await self._send(writer, path, status, b"", {"Location": feed.to})
            case "loop":
                await self._send(writer, path, 302, b"", {"Location": f"{path}?{self.counts.requests[path]}"})
            case "gone":
                await self._send(writer, path, 410, b"gone", {})
            case "limited" | "busy":
                self._held_until[host] = max(self._held_until.get(host, 0.0), clock + feed.retry_after)
                date = format_datetime(datetime.now(UTC) + timedelta(seconds=feed.retry_after), usegmt=True)
                wait = f"{feed.retry_after:.0f}" if feed.behaviour == "limited" else date
                await self._send(writer, path, 429 if feed.behaviour == "limited" else 503, b"", {"Retry-After": wait})
            case "error":
                await self._send(writer, path, 500, b"oops", {})
            case "unchanged":  # whatever was asked
                await self._send(writer, path, 304, b"", {})
            case "missing":
                await self._send(writer, path, 404, b"not here", {})
            case "drip":
                await self._drip(writer, path)
            case "hang":
                await self.release.wait()
            case "cut":
                body = self.body(feed)
                writer.write(head(200, {"Content-Length": str(len(body)), "Content-Type": TYPES[feed.format]}))
                writer.write(body[: len(body) // 2])
                await writer.drain()
            case "garbage":
                writer.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
                await writer.drain()
            case "huge":
                await self._huge(writer, path)
            case _:
                await self._feed(writer, path, feed, request)

    async def _feed(self, writer: asyncio.StreamWriter, path: str, feed: MadeFeed, request: FeedRequest) -> None:
        kind = "text/html" if feed.behaviour == "html" else TYPES[feed.format]
        headers = {"Content-Type": f"{kind}; charset={feed.style.encoding}"} | feed.headers
        body = self.body(feed)
        if feed.validators:
            etag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
            headers |= {"ETag": etag, "Last-Modified": format_datetime(self.now, usegmt=True)}
            if request.headers.get("if-none-match") == etag:
                await self._send(writer, path, 304, b"", headers)
                return
        packing = "gzip" if feed.behaviour in ("gzip_bomb", "not_gzip") else feed.packing
        if packing and feed.behaviour != "gzip_bomb" and feed.behaviour != "not_gzip":
            body = packed(body, packing)
        if packing:
            headers["Content-Encoding"] = packing
        await self._send(writer, path, 200, body, headers)

    def body(self, feed: MadeFeed) -> bytes:
        """Return what a feed is made of, before it is packed."""
        many = MANY if feed.behaviour == "many" else feed.entries
        key = (feed.path, feed.first, many)
        if feed.style.guid == "changing":
            feed.style = replace(feed.style, round=feed.style.round + 1)
            self._bodies.pop(key, None)
        if key not in self._bodies:
            self._bodies[key] = self._made(feed, many)
        return self._bodies[key]

    def _made(self, feed: MadeFeed, many: int) -> bytes:
        base = self.base(feed.host)
        match feed.behaviour:
            case "gzip_bomb":
                return bomb()
            case "entity_bomb":
                return entity_bomb().encode()
            case "html":
                return page(base, [(TYPES[each.format], each.path, each.path) for each in self._others(feed)]).encode()
            case "empty":
                return b""
        style = replace(feed.style, wild_dates=feed.style.wild_dates or feed.behaviour == "wild_dates")
        # The last article is as old as the server; each one before it is a minute older.
        newest = self.now - timedelta(minutes=many)
        articles = newest_first([article(feed.path, feed.first + place, newest) for place in range(1, many + 1)])
        text = WRITERS[feed.format](f"{base}{feed.path}", f"Feed {feed.path}", articles, style)
        if feed.behaviour == "broken_xml":
            text = text.replace("</title>", "</titel>", 3).replace("&lt;", "&nbsp;&lt;", 5)[: -len("</channel></rss>")]
        return text.encode(style.encoding, "xmlcharrefreplace")

    def _others(self, feed: MadeFeed) -> Sequence[MadeFeed]:
        return [each for each in self.feeds.values() if each.host == feed.host and not each.behaviour]

    async def _send(
        self, writer: asyncio.StreamWriter, path: str, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        self.counts.statuses[path, status] += 1
        self.counts.sent[path] += len(body)
        length = {} if status == 304 else {"Content-Length": str(len(body))}
        writer.write(head(status, headers | length) + body)
        await writer.drain()

    async def _drip(self, writer: asyncio.StreamWriter, path: str) -> None:
        """Send a byte now and then, for ever."""
        self.counts.statuses[path, 200] += 1
        writer.write(head(200, {"Content-Type": TYPES["rss"]}))
        while not self.release.is_set():
            writer.write(b" ")
            await writer.drain()
            self.counts.dripped += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.release.wait()

    async def _huge(self, writer: asyncio.StreamWriter, path: str) -> None:
        """Send a hundred megabytes, without saying so before."""
        self.counts.statuses[path, 200] += 1
        writer.write(head(200, {"Content-Type": TYPES["rss"]}) + b'<rss version="2.0"><channel><title>')
        piece = b"many words " * (CHUNK // 11)
        for _ in range(HUGE_BYTES // len(piece)):
            writer.write(piece)
            await writer.drain()
            self.counts.sent[path] += len(piece)


@asynccontextmanager
async def serving(feeds: Iterable[MadeFeed], hosts: int = 1, now: datetime | None = None) -> AsyncIterator[FeedServer]:
    server = FeedServer(feeds, hosts, now)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def read_feed_request(reader: asyncio.StreamReader) -> FeedRequest | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    _, target, _ = lines[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    return FeedRequest(target, headers)


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} reply\r\nConnection: close\r\n{lines}\r\n".encode("latin-1")


def packed(body: bytes, packing: str) -> bytes:
    match packing:
        case "gzip":
            return gzip.compress(body, 1)
        case "deflate":
            return zlib.compress(body, 1)
        case "br":
            return bytes(brotli.compress(body, quality=1))
    raise ValueError(f"no packing {packing}")


def bomb(unpacked: int = BOMB_BYTES) -> bytes:
    """Return a gzip file that is a thousand times as large when it is unpacked. Its end is missing: nobody comes there.

    Made of one packed piece, many times: to pack it all would take seconds, in which the server answers nobody.
    """
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b" " * 1_000_000
    first = pack.compress(piece) + pack.flush(zlib.Z_FULL_FLUSH)
    following = pack.compress(piece) + pack.flush(zlib.Z_FULL_FLUSH)
    return first + following * (unpacked // len(piece) - 1)


def many_feeds(feeds: int, hosts: int, entries: int = 20) -> list[MadeFeed]:
    """Return well-behaved feeds of all formats, encodings and packings, spread over hosts."""
    formats, packings = ("rss", "atom", "rdf", "json"), ("", "gzip", "br", "deflate")
    encodings = ("utf-8", "utf-8", "iso-8859-1", "windows-1251", "utf-16")
    return [
        MadeFeed(
            f"/feeds/{number}",
            format=formats[number % 4],
            host=number % hosts,
            entries=entries,
            packing=packings[number // 4 % 4],
            style=FeedStyle(encoding="utf-8" if number % 4 == 3 else encodings[number // 16 % 5]),
        )
        for number in range(feeds)
    ]


def odd_feeds(first_host: int) -> list[MadeFeed]:
    """Return a feed for each way to misbehave, each on a host of its own, and feeds with odd guids."""
    odd = [
        MadeFeed(f"/odd/{name}", host=first_host + place, behaviour=name, to="/odd/target", validators=name != "many")
        for place, name in enumerate(MISBEHAVIOURS)
    ]
    for feed in [each for each in odd if each.to and each.behaviour in ("moved", "elsewhere")]:
        feed.to = f"/odd/{feed.behaviour}/target"
        odd.append(MadeFeed(feed.to, host=feed.host))
    after = first_host + len(MISBEHAVIOURS)
    odd.append(MadeFeed("/odd/no_guid", host=after, style=FeedStyle(guid="none")))
    odd.append(MadeFeed("/odd/changing_guid", host=after, style=FeedStyle(guid="changing"), validators=False))
    return odd
