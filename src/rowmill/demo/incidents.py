"""Incidents during the demo: one worker is killed, one is frozen past its lease.

Each incident checks before it acts. It halts a process first: a halted process can't change, so its ledger is accurate.
It is killed or kept frozen only if it is inside handlers; otherwise it continues.
"""

import time
from collections.abc import Callable

import rowmill as rm
from rowmill.demo import reads
from rowmill.demo.companies import ATTEMPTS, Company
from rowmill.demo.crew import Condition, Crew, Member
from rowmill.demo.fate import FateKind, Fates

LONGEST = 20.0
"""Most seconds that a worker stays frozen."""
RETURN = 5.0
"""Seconds in which a resumed worker must have tried to settle."""
SETTLED = 1.0
"""Seconds after which it has tried to settle all its rows, once it began."""
MOST_FREEZES = 4


class Scene:
    """What incidents act on."""

    def __init__(self, crew: Crew, queue: rm.Queue[Company], fates: Fates, say: Callable[[str], None]) -> None:
        self.crew = crew
        self.queue = queue
        self.fates = fates
        self.say = say

    async def catch(self, member: Member) -> "reads.HeldRows | None":
        """Halt a worker in the middle of its work. Return None, and let it continue, if the moment is wrong.

        It is wrong if no slow handler that returns values and has attempts left is running, or if the worker holds a
        lock that would block the others.
        """
        if not member.halt():
            return None
        answers = {
            company: attempt
            for company, attempt in member.ledger.inside.items()
            if attempt < ATTEMPTS
            and (fate := self.fates.of(company)).kind is FateKind.SLOW
            and not fate.own_transaction
        }
        if answers and reads.others_can_write(self.queue.mill):
            held = await reads.held_by(self.queue, member.ledger.worker)
            rows = {company: attempt for company, attempt in held.items() if answers.get(company) == attempt}
            if rows:
                return reads.HeldRows(rows, len(held))
        member.go_on()
        return None


class Kill:
    """Kills one worker with SIGKILL. Its rows return to the queue when their leases expire."""

    def __init__(self, scene: Scene, after: float) -> None:
        self._scene = scene
        self._after = after
        self.over = False
        self.kills = 0

    async def tick(self, progress: float) -> None:
        if self.over or progress < self._after:
            return
        for member in reversed(self._scene.crew.working()):
            held = await self._scene.catch(member)
            if held is not None:
                member.kill()
                self.kills += 1
                self.over = True
                self._scene.say(f"worker {member.place} killed (SIGKILL), rows in hand: {held.rows}")
                return


class Freeze:
    """Freezes one worker with SIGSTOP until others have taken over its rows. Then it continues and tries to settle
    them."""

    def __init__(self, scene: Scene, after: float) -> None:
        self._scene = scene
        self._after = after
        self._member: Member | None = None
        self._held = reads.HeldRows({}, 0)
        self._since = 0.0
        self._refused_before = 0
        self.over = False
        self.freezes = 0

    @property
    def under_way(self) -> bool:
        return self._member is not None

    async def tick(self, progress: float) -> None:
        member, now = self._member, time.monotonic()
        if self.over:
            return
        if member is None:
            if progress >= self._after:
                await self._begin(now)
        elif member.condition is Condition.DEAD:
            self._member = None  # a row of its own killed it after it woke
            self._judge(member)
        elif member.condition is Condition.FROZEN:
            taken = await reads.taken_over(self._scene.queue, self._held.answers)
            if taken or now - self._since > LONGEST:
                self._wake(member, now)
        elif now - self._since > (RETURN if len(member.ledger.refused) == self._refused_before else SETTLED):
            self._member = None
            self._judge(member)

    async def _begin(self, now: float) -> None:
        for member in self._scene.crew.working():
            held = await self._scene.catch(member)
            if held is not None:
                self._member, self._held, self._since = member, held, now
                self._refused_before = len(member.ledger.refused)
                self.freezes += 1
                self._scene.say(
                    f"worker {member.place} frozen (SIGSTOP), rows in hand: {held.rows}, "
                    f"handlers running: {len(member.ledger.inside)}"
                )
                return

    def _wake(self, member: Member, now: float) -> None:
        frozen = now - self._since
        self._since = now
        member.go_on()
        self._scene.say(
            f"worker {member.place} woken (SIGCONT) after {frozen:.1f} s: it tries to settle rows that others have now"
        )

    def _judge(self, member: Member) -> None:
        refused = len(member.ledger.refused) - self._refused_before
        if refused:
            self.over = True
            self._scene.say(
                f"settlements of worker {member.place} refused, as the leases are no longer its own: {refused}"
            )
        else:
            self.over = self.freezes >= MOST_FREEZES
