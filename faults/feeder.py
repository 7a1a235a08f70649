"""Puts rows in while all this happens: `python -m faults.feeder`. Never outlives who started it.

An item and its event are written in one transaction; one transaction in ten is rolled back. What it is about to commit
and what was confirmed stands in its ledger: a commit whose answer was lost may or may not have been carried out.
"""

import argparse
import os
import random
import time
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from faults.ledger import Ledger, What
from faults.worker import URL_VARIABLE
from faults.world import GROUPS, Event, Item, Lot, Paper
from rowmill.demo.worker import die_with_parent
from rowmill.store.sqlite.writer import take_over_transactions

CHUNK = 10
UNDONE = 0.1


def engine_of(url: str) -> sa.Engine:
    parsed: URL = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = sa.create_engine(parsed)
        take_over_transactions(engine)
        return engine
    return sa.create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)


def insert_backlog(engine: sa.Engine, ledger: Ledger, rows: int) -> None:
    """Insert so many lots and papers at once."""
    keys = range(1, rows + 1)
    with engine.begin() as connection:
        for model in (Lot, Paper):
            connection.execute(sa.insert(model), [{"id": key} for key in keys])
    now = time.time()
    ledger.say_all(
        ledger.entry(What.INSERTED, model.__tablename__, key, now, 0, "") for model in (Lot, Paper) for key in keys
    )


def feed(engine: sa.Engine, ledger: Ledger, seed: int, rate: float, first: int, groups: int) -> None:
    """Insert a few rows of each kind per transaction, at this rate, until the process ends."""
    chance = random.Random(f"{seed}:feeder")
    due = time.monotonic()
    while True:
        keys = range(first, first + CHUNK)
        first += CHUNK
        places = [(model.__tablename__, key) for model in (Item, Lot, Paper, Event) for key in keys]
        undone = chance.random() < UNDONE
        try:
            with engine.connect() as connection, connection.begin() as transaction:
                for model in (Item, Lot, Paper):
                    connection.execute(sa.insert(model), [{"id": key} for key in keys])
                connection.execute(sa.insert(Event), [{"id": key, "group": key % groups} for key in keys])
                now = time.time()
                ledger.say_all(
                    ledger.entry(What.UNDONE if undone else What.INSERT, *place, now, 0, "") for place in places
                )
                if undone:
                    transaction.rollback()
                else:
                    transaction.commit()
            if not undone:
                now = time.time()
                ledger.say_all(ledger.entry(What.INSERTED, *place, now, 0, "") for place in places)
        except DBAPIError:
            time.sleep(0.2)  # the database is away; what became of the commit, the ledger run_ends open
        due = max(due + len(places) / rate, time.monotonic() - 1.0)
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    options.add_argument("--rate", type=float, default=400.0, help="rows a second, of all kinds together")
    options.add_argument("--first", type=int, default=1, help="key")
    options.add_argument("--groups", type=int, default=GROUPS, help="over which events are spread")
    given = options.parse_args()
    engine = engine_of(os.environ[URL_VARIABLE])
    feed(engine, Ledger(given.ledger), given.seed, given.rate, given.first, given.groups)


if __name__ == "__main__":
    main()
