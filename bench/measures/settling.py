"""What does it cost that a handler's own writes and its row commit together?

Each row writes one row elsewhere, in the transaction that settles it. The limit is the same transaction written by hand
on asyncpg: BEGIN, INSERT, UPDATE, COMMIT. With objects of the ORM, SQLAlchemy itself is the limit: the same transaction
written by hand with an AsyncSession stands beside it.
"""

from bench.measures import Scale
from bench.measures.drain import rounds
from bench.peers.known import RAW_SESSIONS, RAW_TRANSACTIONS, ROWMILL, rowmill
from bench.results import Account, Result

GOALS = (("settling", 0.5), ("settlingorm", 0.25), ("settlingsync", None), ("settlingbatch", 3.0))
NAMES = {
    "settling": "settling(), statements of Core",
    "settlingorm": "settling(), objects of the ORM",
    "settlingsync": "settling() in threads",
    "settlingbatch": "settling() of batches",
}


def transactions(server: str, scale: Scale, account: Account) -> None:
    peers = {shape: rowmill(shape) for shape, _ in GOALS}
    rates = rounds(server, scale.of_transactions, [RAW_TRANSACTIONS, RAW_SESSIONS, *peers.values()])
    results = [
        Result(
            f"{NAMES[shape]} / a transaction per row by hand",
            rates.ratio(peers[shape].name, RAW_TRANSACTIONS.name),
            goal,
        )
        for shape, goal in GOALS
    ]
    orm = rates.ratio(peers["settlingorm"].name, RAW_SESSIONS.name)
    results.append(Result(f"{NAMES['settlingorm']} / an AsyncSession per row by hand", orm, None))
    account.add(results, settling=rates.summary())


def sync(server: str, scale: Scale, account: Account) -> None:
    """Measure sync handlers, in threads."""
    threads = rowmill("sync")
    rates = rounds(server, scale, [ROWMILL, threads])
    result = Result("drain, sync handlers / async ones", rates.ratio(threads.name, ROWMILL.name), 0.4)
    account.add([result], drain_sync=rates.summary())
