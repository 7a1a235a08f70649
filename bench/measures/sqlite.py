"""SQLite, beside Huey on SQLite."""

from bench.measures import Scale
from bench.peers.known import HUEY, ROWMILL
from bench.results import Account, Rates, Result
from bench.runs import drained, fresh_file


def drain(server: str, scale: Scale, account: Account) -> None:
    rates = Rates()
    for _ in range(scale.rounds):
        for peer in (ROWMILL, HUEY):
            jobs = scale.jobs // 2
            with fresh_file(peer, jobs) as site:
                rates.add(peer.name, drained(site, jobs))
    account.add([Result("SQLite, drain / huey", rates.ratio(ROWMILL.name, HUEY.name), 4.0)], sqlite=rates.summary())
