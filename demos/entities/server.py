"""A server on the loopback that speaks for Wikidata, DBpedia and a service of the Reconciliation API over a world that
does not exist; and misbehaves by a plan, and counts. `python -m demos.entities.server --port 8100`."""

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from demos.entities.counts import Count
from demos.entities.dbpedia_api import DbpediaApi
from demos.entities.index import Index
from demos.entities.plan import Fault, Plan
from demos.entities.reconciliation_api import ReconciliationApi, TooMany
from demos.entities.wikidata_api import WikidataApi, error
from demos.entities.wire import Reply, Request, dumped, read_request, send
from demos.entities.world import World, make_world

LIBRARIES = ("python-httpx", "python-requests", "python-urllib", "curl", "aiohttp")
"""User-Agents that do not identify the caller."""
PAGE = b"<!DOCTYPE html><html><head><title>Wikimedia Error</title></head><body>Our servers are busy.</body></html>"


class Server:
    def __init__(self, world: World, plan: Plan | None = None) -> None:
        index = Index(world)
        self.world, self.plan = world, plan or Plan()
        self.wikidata, self.dbpedia = WikidataApi(index), DbpediaApi(index)
        self.reconciliation = ReconciliationApi(index)
        self.counts: dict[str, Count] = defaultdict(Count)
        self.user_agents: set[str] = set()
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings with which entities uses this server."""
        return {
            "wikidata_url": f"{self.url}/w/api.php", "dbpedia_lookup_url": f"{self.url}/lookup/api/search",
            "dbpedia_spotlight_url": f"{self.url}/spotlight/en/candidates", "dbpedia_data_url": f"{self.url}/data",
            "reconciliation": {"world": f"{self.url}/reconcile"},
        }  # fmt: skip

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection with any number of requests."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                if not await self._handle(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            pass  # the client has gone, or all is over
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _handle(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if request.path.startswith("/control/"):
            await send(writer, self._control(request))
            return True
        service = service_of(request.path)
        count = self.counts[service]
        count.arrived(request.question)
        self.user_agents.add(request.headers.get("user-agent", ""))
        try:
            return await self._answer(request, service, count, reader, writer)
        finally:
            count.at_once -= 1

    async def _answer(
        self, request: Request, service: str, count: Count, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if self.plan.away(service):
            count.faults["outage"] += 1
            writer.transport.abort()
            return False
        if self.plan.latency:
            await asyncio.sleep(self.plan.latency)
        waits = count.wait_until - time.monotonic()
        fault = Fault.TOO_MANY if waits > 0 else self.plan.fault(service)
        if fault is Fault.MAXLAG and "maxlag" not in request.parameters:
            fault = None
        reply = self.right(request, service)
        if fault is None:
            await send(writer, reply)
            if reply.status == 200:
                count.answered[request.question] += 1
                count.items.update(items_of(request))
            return True
        count.faults[fault] += 1
        if fault is Fault.HANG:
            await reader.read(1)  # until the client goes
            return False
        await self._misbehave(fault, reply, count, writer)
        return fault not in (Fault.DRIP, Fault.CUT)

    async def _misbehave(self, fault: Fault, reply: Reply, count: Count, writer: asyncio.StreamWriter) -> None:
        wait = {"Retry-After": f"{self.plan.retry_after:g}"}
        match fault:
            case Fault.TOO_MANY | Fault.UNAVAILABLE:
                await send(writer, Reply(PAGE, int(fault), wait))
            case Fault.MAXLAG:
                lag = error("maxlag", "Waiting for a database server: 8.1 seconds lagged.", lag=8.1, type="db")
                await send(writer, Reply(dumped(lag), 200, {**wait, "X-Database-Lag": "8"}))
            case Fault.RATELIMITED:
                await send(writer, Reply(dumped(error("ratelimited", "You've exceeded your rate limit.")), 200, wait))
            case Fault.BROKEN | Fault.FORBIDDEN | Fault.REJECTED:
                await send(writer, Reply(PAGE, int(fault)))
            case Fault.REDIRECT:
                await send(writer, Reply(b"", 302, {"Location": "/elsewhere"}))
            case Fault.DRIP:
                await send(writer, Reply(reply.body, drips=True))
            case Fault.CUT:
                await send(writer, Reply(reply.body[: len(reply.body) // 2], declared=len(reply.body)))
                writer.transport.abort()
            case Fault.SHORT:
                await send(writer, Reply(reply.body[: len(reply.body) // 2]))
            case Fault.HTML:
                await send(writer, Reply(PAGE, headers={"Content-Type": "text/html"}))
        if fault in (Fault.TOO_MANY, Fault.UNAVAILABLE, Fault.MAXLAG, Fault.RATELIMITED):
            count.wait_until = max(count.wait_until, time.monotonic() + self.plan.retry_after)

    def right(self, request: Request, service: str) -> Reply:
        """Return the reply of a healthy service."""
        agent, given = request.headers.get("user-agent", ""), request.parameters
        if service == "wikidata" and (not agent or agent.lower().startswith(LIBRARIES)):
            return Reply(b"Please set a user-agent and respect our robot policy.", 403)
        match service:
            case "wikidata":
                return Reply(dumped(self.wikidata.answer(given)))
            case "dbpedia-lookup":
                return Reply(dumped(self.dbpedia.lookup(given)))
            case "dbpedia-spotlight":
                asked = self.dbpedia.annotate if request.path.endswith("/annotate") else self.dbpedia.candidates
                return Reply(dumped(asked(given)))
            case "dbpedia-data":
                found = self.dbpedia.data(request.path.removeprefix("/data/").removesuffix(".json"))
                return Reply(PAGE, 404) if found is None else Reply(dumped(found))
            case "reconciliation":
                return self._reconciled(request)
        return Reply(PAGE, 404)

    def _reconciled(self, request: Request) -> Reply:
        if request.path.endswith("/propose_properties"):
            return Reply(dumped(self.reconciliation.propose(request.parameters)))
        try:
            return Reply(dumped(self.reconciliation.answer(request.parameters, self.url)))
        except TooMany:
            return Reply(PAGE, 413)
        except (ValueError, KeyError, TypeError):
            return Reply(PAGE, 400)

    def _control(self, request: Request) -> Reply:
        """Handle /control/counts, /control/plan (POST, JSON) and /control/reset."""
        if request.path == "/control/plan":
            self.plan = Plan.from_json(json.loads(request.body))
        elif request.path == "/control/reset":
            self.counts.clear()
        return Reply(dumped({service: count.to_json() for service, count in self.counts.items()}))

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def service_of(path: str) -> str:
    starts = {"/w/": "wikidata", "/lookup/": "dbpedia-lookup", "/spotlight/": "dbpedia-spotlight"}
    starts |= {"/data/": "dbpedia-data", "/reconcile": "reconciliation"}
    return next((service for start, service in starts.items() if path.startswith(start)), "unknown")


def items_of(request: Request) -> list[str]:
    """Return the ids in a request for several, each with what is asked about it."""
    given = request.parameters
    return [f"{given.get('props')} {id}" for id in given.get("ids", "").split("|") if id]


@asynccontextmanager
async def serving(world: World, plan: Plan | None = None, port: int = 0) -> AsyncIterator[Server]:
    """Serve in the running loop."""
    found = Server(world, plan)
    server = await asyncio.start_server(found.serve, "127.0.0.1", port, backlog=1000, limit=2**20)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
        await found.close()


async def run(size: int, seed: int, port: int, plan: Plan) -> None:
    async with serving(make_world(size, seed), plan, port) as server:
        print(json.dumps({"url": server.url}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--size", type=int, default=300, help="things in the world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", type=json.loads, default={}, help="how to misbehave, in JSON")
    given = parser.parse_args()
    asyncio.run(run(given.size, given.seed, given.port, Plan.from_json(given.plan)))


if __name__ == "__main__":
    main()
