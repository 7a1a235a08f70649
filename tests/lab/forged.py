"""Histories made by hand: a good one, of which tests spoil one thing at a time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from faults.history import Change, History, Row, Step, Words
from faults.ledger import Entry, What

PLAIN = Words(
    (Step("work", frozenset({"ready", "waiting"}), "running", "done"),),
    frozenset({"done", "dead", "cancelled"}),
    "dead",
    3,
)


class Forger:
    """Writes what happens to rows as processes and a database would have."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.changes: list[Change] = []
        self.rows: dict[tuple[str, int], Row] = {}
        self.until: dict[tuple[str, int], float] = {}
        self.failures: dict[tuple[str, int], int] = {}
        self.counted: dict[tuple[str, str], int] = {}
        self.now = 100.0
        self.last = 0

    def say(self, what: What, queue: str, key: int, token: int = 0, move: str = "") -> None:
        self.now += 0.01
        self.entries.append(Entry(what, queue, key, self.now, token, "work", move, 7))

    def change(self, queue: str, key: int, state: str, **fields: Any) -> None:
        self.now += 0.01
        self.last += 1
        row = self.rows[queue, key]
        new = replace(row, **({"state": state} | {k: v for k, v in fields.items() if k != "error"}))
        old_until = self.until.pop((queue, key), None)
        self.changes.append(
            Change(
                self.last, self.now, queue, key, row.state, new.state, row.lease, new.lease, old_until,
                row.attempts, new.attempts, new.mark, fields.get("error"),
            )
        )  # fmt: skip
        self.rows[queue, key] = new
        if new.lease is not None:
            self.until[queue, key] = self.now + 2.0

    def insert(self, queue: str, key: int, group: int | None = None) -> None:
        self.say(What.INSERT, queue, key)
        self.say(What.INSERTED, queue, key)
        self.rows[queue, key] = Row(queue, key, "ready", 0, group=group)

    def claim(self, queue: str, key: int, token: int) -> None:
        self.change(queue, key, "running", lease=token, attempts=self.rows[queue, key].attempts + 1)
        self.say(What.CLAIMED, queue, key, token)
        self.say(What.BEGIN, queue, key, token)

    def finish(self, queue: str, key: int) -> None:
        token = self.rows[queue, key].lease or 0
        self.say(What.ASK, queue, key, token, "done")
        self.change(queue, key, "done", lease=None, mark=token)
        self.say(What.KEPT, queue, key, token, "done")
        self._count(queue, "done")

    def fail(self, queue: str, key: int) -> None:
        token = self.rows[queue, key].lease or 0
        self.say(What.ASK, queue, key, token, "again")
        self.change(queue, key, "waiting", lease=None)
        self.say(What.KEPT, queue, key, token, "again")
        self._count(queue, "again")
        self._fail(queue, key)

    def rescue(self, queue: str, key: int, *, after: float = 3.0) -> None:
        self.now += after
        self.change(queue, key, "ready", lease=None, error="lease_expired")
        self._fail(queue, key)

    def _count(self, queue: str, move: str) -> None:
        self.counted[queue, move] = self.counted.get((queue, move), 0) + 1

    def _fail(self, queue: str, key: int) -> None:
        self.failures[queue, key] = self.failures.get((queue, key), 0) + 1

    def history(self, **fields: Any) -> History:
        words = {queue: PLAIN for queue, _ in self.rows}
        return History(
            words, list(self.entries), list(self.changes), list(self.rows.values()), failures=self.failures,
            counted=self.counted, **fields,
        )  # fmt: skip


def good() -> Forger:
    """A row that fails once and is done, one that outlives its worker, and one that nobody troubled."""
    forger = Forger()
    for key in (1, 2, 3):
        forger.insert("job", key)
    forger.claim("job", 1, 11)
    forger.fail("job", 1)
    forger.claim("job", 1, 12)
    forger.finish("job", 1)
    forger.claim("job", 2, 13)
    forger.rescue("job", 2)
    forger.claim("job", 2, 14)
    forger.finish("job", 2)
    forger.claim("job", 3, 15)
    forger.finish("job", 3)
    return forger


def rules(found: Sequence[Any]) -> set[int]:
    return {violation.rule for violation in found}
