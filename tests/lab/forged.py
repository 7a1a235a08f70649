"""Histories made by hand: a good one, of which tests spoil one thing at a time."""

from dataclasses import replace
from typing import Any

from faults.checker import check
from faults.history import DELETED, Change, History, Row, Step, Words
from faults.ledger import Entry, What

PLAIN = Words(
    (Step("work", frozenset({"ready", "waiting"}), "running", "done"),),
    frozenset({"done", "dead", "cancelled"}),
    "dead",
    3,
    2.0,
    0.1,
)


class Forger:
    """Writes what happens to rows as processes and a database would have."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.changes: list[Change] = []
        self.rows: dict[tuple[str, int], Row] = {}
        self.until: dict[tuple[str, int], float] = {}
        self.failures: dict[tuple[tuple[str, int], str, int], int] = {}
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
        new = replace(row, **({"state": state} | {k: v for k, v in fields.items() if k not in ("error", "due")}))
        old_until = self.until.pop((queue, key), None)
        self.changes.append(
            Change(
                self.last, self.now, queue, key, row.state, new.state, row.lease, new.lease, old_until,
                row.attempts, new.attempts, new.mark, fields.get("error"), fields.get("due"),
            )
        )  # fmt: skip
        self.rows[queue, key] = new
        if new.lease is not None:
            self.until[queue, key] = self.now + 2.0

    def insert(self, queue: str, key: int, group: int | None = None) -> None:
        self.say(What.INSERT, queue, key)
        self.say(What.INSERTED, queue, key)
        self.rows[queue, key] = Row(queue, key, "ready", 0, group=group)

    def claim(self, queue: str, key: int, token: int, due: float | None = None) -> None:
        self.change(queue, key, "running", lease=token, attempts=self.rows[queue, key].attempts + 1, due=due)
        self.say(What.CLAIMED, queue, key, token)
        self.say(What.BEGIN, queue, key, token)

    def finish(self, queue: str, key: int) -> None:
        self._settle(queue, key, "done", "done", mark=self.rows[queue, key].lease)

    def fail(self, queue: str, key: int, wait: float = 0.2) -> None:
        self._settle(queue, key, "again", "waiting", error="busy", due=self.now + wait)
        self._fail(queue, key, self.rows[queue, key].attempts)

    def die(self, queue: str, key: int) -> None:
        self._settle(queue, key, "dead", "dead", error="broken")
        self._fail(queue, key, self.rows[queue, key].attempts)

    def release(self, queue: str, key: int) -> None:
        """Given back as it is, with the note that it is on trial, if there is one."""
        note, given = self.changes[-1].error, self.rows[queue, key].attempts - 1
        self._settle(queue, key, "release", "ready", error=note, attempts=given)

    def hold(self, queue: str, key: int, wait: float = 0.2) -> None:
        """It waits for a limit: no failure, and its attempt is given back."""
        given = self.rows[queue, key].attempts - 1
        self._settle(queue, key, "hold", "ready", error="limit_rate: eqc", attempts=given, due=self.now + wait)

    def _settle(self, queue: str, key: int, move: str, state: str, **fields: Any) -> None:
        token = self.rows[queue, key].lease or 0
        self.say(What.ASK, queue, key, token, move)
        self.change(queue, key, state, lease=None, **fields)
        self.say(What.KEPT, queue, key, token, move)
        self._count(queue, move)

    def put_on_trial(self, queue: str, key: int) -> None:
        self.change(queue, key, "running", error="lease_expired")

    def rescue(self, queue: str, key: int, *, after: float = 3.0, **fields: Any) -> None:
        self.now += after
        made = self.rows[queue, key].attempts
        self.change(queue, key, "ready", lease=None, error="lease_expired", **fields)
        self._fail(queue, key, made)

    def bury(self, queue: str, key: int) -> None:
        self.now += 3.0
        self.change(queue, key, "dead", lease=None, error="lease_expired_max_attempts")
        self._fail(queue, key, self.rows[queue, key].attempts)

    def operate(self, verb: str, queue: str, *keys: int, told: int | None = None) -> "Operating":
        """An operator is at it for the time of the block; it is told how many rows it changed, unless it is killed."""
        return Operating(self, verb, queue, keys or (0,), told)

    def put_back(self, queue: str, key: int) -> None:
        self.change(queue, key, "ready", attempts=0)

    def delete(self, queue: str, key: int) -> None:
        self.change(queue, key, DELETED)
        del self.rows[queue, key]

    def _count(self, queue: str, move: str) -> None:
        self.counted[queue, move] = self.counted.get((queue, move), 0) + 1

    def _fail(self, queue: str, key: int, attempt: int) -> None:
        about = (queue, key), "work", attempt
        self.failures[about] = self.failures.get(about, 0) + 1

    def history(self, **fields: Any) -> History:
        words = {queue: PLAIN for queue, _ in self.rows}
        return History(
            words, list(self.entries), list(self.changes), list(self.rows.values()), failures=self.failures,
            counted=self.counted, **fields,
        )  # fmt: skip


class Operating:
    def __init__(self, forger: Forger, verb: str, queue: str, keys: tuple[int, ...], told: int | None) -> None:
        self._forger, self._verb, self._queue, self._keys, self._told = forger, verb, queue, keys, told

    def __enter__(self) -> None:
        self._forger.now += 2.0
        self._number = len(self._forger.entries) + 1
        for key in self._keys:
            self._say(What.OPERATE, key)

    def __exit__(self, *_: object) -> None:
        if self._told is not None:
            self._say(What.OPERATED, 0, self._told)
        self._forger.now += 2.0

    def _say(self, what: What, key: int, rows: int = 0) -> None:
        now = self._forger.now
        self._forger.entries.append(Entry(what, self._queue, key, now, self._number, "", self._verb, 9, rows))


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


def found(forger: Forger, **fields: Any) -> list[tuple[int, int]]:
    """(rule, key) of every violation."""
    return [(violation.rule, violation.place[1]) for violation in check(forger.history(**fields))]
