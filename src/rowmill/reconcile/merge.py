"""One merge pass over all inventories, key by key, in constant memory.

If an inventory breaks off, it counts as observed up to its last key, since keys ascend, which is checked. Beyond that
key, no rule concludes anything from it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowmill.model.errors import InventoryError, code_of, safe_text
from rowmill.reconcile.inventory import Incomplete, Inventory, Page, Pages
from rowmill.reconcile.item import NOTHING, Facts, key_text, kind_of
from rowmill.reconcile.rules import Here, Rule, RuleVerdict, RunClock
from rowmill.store.port import Store


@dataclass(frozen=True, slots=True)
class UnreadableInventory:
    """An inventory that could not be read to its end."""

    inventory: str
    code: str
    upto: str | None
    """The last key up to which it was read; None: nothing can be concluded from it."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A key on which a rule matched during the pass."""

    rule: int
    key: Any
    here: dict[str, Facts]
    in_flight: bool = False


@dataclass(slots=True)
class Observed:
    """What a pass has read."""

    counts: dict[str, int] = field(default_factory=dict)
    unreadable: list[UnreadableInventory] = field(default_factory=list)
    inconclusive: set[str] = field(default_factory=set)
    """Inventories that returned too few items, possibly anywhere. Absence from them proves nothing, even at earlier
    keys."""

    @property
    def broken(self) -> set[str]:
        return {one.inventory for one in self.unreadable}


class Cursor:
    """A position in an inventory. Rejects keys that do not ascend."""

    def __init__(self, name: str, inventory: Inventory, pages: Pages) -> None:
        self.name = name
        self.inventory = inventory
        self._pages = pages
        self._page: Page = ()
        self._place = 0
        self.count = 0
        self.last: Any = None
        self._kind: type | None = None
        self.key: Any = None
        self.facts: Facts = NOTHING
        self.failed: Exception | None = None

    async def advance(self) -> bool:
        """Move to the next key. Return False at the end, or if reading failed: then `failed` is set."""
        while True:
            while self._place < len(self._page):
                key, facts = self._page[self._place]
                self._place += 1
                if not self._follows(key, facts):
                    continue
                self.key = self.last = key
                self.facts = facts
                if not self.inventory.many:
                    return True
                return await self._gather()
            if not await self._next_page():
                return False

    async def _gather(self) -> bool:
        """Merge entries with the same key into one item. Its time is that of the newest entry."""
        while True:
            while self._place < len(self._page):
                key, facts = self._page[self._place]
                if key != self.key:
                    return True
                self._place += 1
                self.count += 1
                mine, other = self.inventory.time_of(self.facts), self.inventory.time_of(facts)
                if other is not None and (mine is None or other > mine):
                    self.facts = facts
            if not await self._next_page():
                return True

    async def _next_page(self) -> bool:
        if self.failed is not None:
            return False
        try:
            async with asyncio.timeout(self.inventory.timeout):
                self._page, self._place = await anext(self._pages), 0
        except StopAsyncIteration:
            self._page = ()
            return False
        except InventoryError:
            raise
        except Exception as error:
            self._page, self.failed = (), error
            return False
        return True

    def _follows(self, key: Any, facts: Facts) -> bool:
        self.count += 1
        if self._kind is None:
            try:
                self._kind = kind_of(key)
            except InventoryError as error:
                raise InventoryError(f"inventory {self.name}, position {self.count}: {error}") from None
            return True
        try:
            if key > self.last:
                return True
            twice = key == self.last
        except TypeError:
            raise InventoryError(
                f"inventory {self.name} gives keys of two types: {type(self.last).__name__} at position "
                f"{self.count - 1}, {type(key).__name__} at position {self.count}"
            ) from None
        here, before = key_text(key), key_text(self.last)
        if twice:
            raise InventoryError(
                f"inventory {self.name} gives key {here} twice, at positions {self.count - 1} and {self.count}. "
                "If several things of it have one key, declare it with many=True"
            )
        raise InventoryError(
            f"inventory {self.name} is not in ascending order: {before} at position {self.count - 1}, then {here} at "
            f"position {self.count}. Give its keys in the order of their bytes, or let it be sorted: sort=True"
        )

    def unreadable(self) -> UnreadableInventory:
        assert self.failed is not None
        inconclusive = isinstance(self.failed, Incomplete) and self.failed.anywhere
        code = self.failed.code if isinstance(self.failed, Incomplete) else code_of(self.failed)
        upto = None if inconclusive or self.last is None else key_text(self.last)
        return UnreadableInventory(self.name, code, upto, safe_text(str(self.failed)))

    async def aclose(self) -> None:
        await self._pages.aclose()


OnSuspect = Callable[[Suspect], None]


class Pass:
    """Compares all inventories in one pass. Calls `on_suspect` for every suspect, in the order of keys."""

    def __init__(
        self, inventories: Mapping[str, Inventory], rules: Sequence[Rule], clock: RunClock, on_suspect: OnSuspect,
        progress: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self._inventories = inventories
        self._rules = list(enumerate(rules))
        self._clock = clock
        self._on_suspect = on_suspect
        self._progress = progress
        self.observed = Observed()

    async def run(self, store: Store) -> Observed:
        cursors = [Cursor(name, one, one.walk(store)) for name, one in self._inventories.items()]
        try:
            await self._merge(cursors)
        finally:
            for cursor in cursors:
                self.observed.counts[cursor.name] = cursor.count
                await cursor.aclose()
        return self.observed

    async def _merge(self, cursors: list[Cursor]) -> None:
        live = [cursor for cursor in cursors if await self._advance(cursor)]
        kinds = {cursor.name: kind_of(cursor.key) for cursor in live}
        if len(set(kinds.values())) > 1:
            listed = ", ".join(f"{name} has {kind.__name__}" for name, kind in kinds.items())
            raise InventoryError(f"the inventories have keys of different types, and no common order: {listed}")
        done = 0
        while live and self._rules:
            low = live[0].key
            for cursor in live:
                if cursor.key < low:
                    low = cursor.key
            at_low = [cursor for cursor in live if cursor.key == low]
            self._judge(low, {cursor.name: cursor.facts for cursor in at_low})
            for cursor in at_low:
                if not await self._advance(cursor):
                    live = [one for one in live if one is not cursor]
            done += 1
            if self._progress is not None and done % 10_000 == 0:
                self._progress(done)

    def _judge(self, key: Any, here: Here) -> None:
        for number, rule in self._rules:
            verdict = rule.judge(key, here, self._clock)
            if verdict is not RuleVerdict.FINE:
                self._on_suspect(Suspect(number, key, dict(here), verdict is RuleVerdict.IN_FLIGHT))

    async def _advance(self, cursor: Cursor) -> bool:
        if await cursor.advance():
            return True
        if cursor.failed is not None:
            self._drop(cursor)
        return False

    def _drop(self, cursor: Cursor) -> None:
        """Stop all rules that need this inventory, after it failed."""
        unreadable = cursor.unreadable()
        self.observed.unreadable.append(unreadable)
        if unreadable.upto is None:
            self.observed.inconclusive.add(cursor.name)
        self._rules = [(number, rule) for number, rule in self._rules if cursor.name not in rule.involved]
