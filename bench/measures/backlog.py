"""Effect of the table's size: waiting jobs, and finished ones."""

from contextlib import ExitStack

from bench.measures import Scale
from bench.peers.known import ROWMILL
from bench.results import Account, Rates, Result
from bench.runs import Site, drained, fresh

SMALL = 10_000
FIRST = 8_000
"""Number of first jobs whose rate is measured after a worker has started."""
FINISHED = """
INSERT INTO bench_narrow (payload, state, attempts, available_at, finished_at)
SELECT '{{}}', 'completed', 1, now() - interval '1 day', now() - interval '1 day' FROM generate_series(1, {rows})
"""


def rate_of_first(site: Site) -> float:
    site.reset()
    with site.running("work"):
        count, first, last = site.wait_for_start(FIRST)
    return count / (last - first)


def waiting(server: str, scale: Scale, account: Account) -> None:
    """Measure the rate of the first jobs from backlogs of different sizes."""
    rates = Rates()
    sizes = [SMALL, scale.backlog // 10, scale.backlog]
    with ExitStack() as stack:
        big = [stack.enter_context(fresh(ROWMILL, server, size, name=f"backlog_{size}")) for size in sizes[1:]]
        for _ in range(scale.rounds * 2 + 1):  # short ones
            with fresh(ROWMILL, server, SMALL) as site:
                rates.add(str(SMALL), rate_of_first(site))
            for size, site in zip(sizes[1:], big, strict=True):
                rates.add(str(size), rate_of_first(site))
    ratio = rates.ratio(str(scale.backlog), str(SMALL))
    account.add([Result(f"backlog of {scale.backlog:,} / of {SMALL:,}", ratio, 0.9)], backlog=rates.summary())


def finished(server: str, scale: Scale, account: Account) -> None:
    """Measure a drain in a table full of finished rows, and in an empty one."""
    rates = Rates()
    with fresh(ROWMILL, server, name="finished") as old:
        with old.asking() as connection:
            for _ in range(10):
                connection.execute(FINISHED.format(rows=scale.finished // 10))
            connection.execute("VACUUM ANALYZE")
        for _ in range(scale.rounds):
            with fresh(ROWMILL, server, scale.jobs) as site:
                rates.add("new", drained(site, scale.jobs))
            old.reset()
            old.call("load", scale.jobs)
            rates.add("old", drained(old, scale.jobs))
    account.add(
        [Result(f"drain beside {scale.finished:,} finished rows / in a new table", rates.ratio("old", "new"))],
        finished=rates.summary(),
    )
