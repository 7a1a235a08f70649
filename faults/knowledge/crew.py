"""The processes of a run: workers, clients and a comparer, which are harmed and replaced."""

import multiprocessing
import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from faults.fleet import LEAVE_SECONDS, ROOT, FleetBroke, Member, last_lines
from faults.knowledge.site import KnowledgeSite
from tests.support.python import PIPE, Python, start_fork_server

ROLES = {"worker": 2, "client": 2, "comparer": 1}
PRELOADED = ["faults.knowledge.process", "faults.knowledge.run", "rowmill.store.sqlite.store"]
PRELOADED += ["rowmill.store.postgres.store", "asyncpg", "rowmill_systems.parts.vectors.pgvector"]


class Crew:
    def __init__(self, site: KnowledgeSite, seed: int, environment: Mapping[str, str]) -> None:
        self._site, self._seed, self._environment = site, seed, environment
        self._chance = random.Random(f"{seed}:crew")
        self.members: dict[str, list[Member]] = {role: [] for role in ROLES}
        self._started = 0
        # What is killed again and again starts at once.
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
        start_fork_server()

    def __enter__(self) -> Self:
        for role, number in ROLES.items():
            for _ in range(number):
                self.start(role)
        return self

    def start(self, role: str) -> None:
        self._started += 1
        name = f"{role}-{self._started}"
        ledger, path = self._site.folder / f"{name}.ledger", self._site.folder / f"{name}.log"
        command = ["-m", "faults.knowledge.process", role, "--seed", str(self._seed), "--ledger", str(ledger)]
        known = {**os.environ, "PYTHONPATH": str(ROOT), **self._site.environment(), **self._environment}
        with path.open("ab") as log:
            process = Python(*command, stdin=PIPE, stdout=log, stderr=log, env=known, cwd=ROOT)
        self.members[role].append(Member(process, path, ledger))  # type: ignore[arg-type]

    def wait_until_up(self) -> None:
        for members in self.members.values():
            for member in members:
                member.wait_until_up()

    def pick(self, role: str) -> Member | None:
        """Return one that is up."""
        able = [each for each in self.members[role] if each.alive and not each.frozen and each.is_up]
        return self._chance.choice(able) if able else None

    def kill(self, role: str) -> bool:
        """Kill one, and start another in its place. Return whether there was one."""
        member = self.pick(role)
        if member is None:
            return False
        member.kill()
        self.members[role].remove(member)
        self.start(role)
        return True

    def look(self) -> None:
        """Raise FleetBroke if a process ended by itself."""
        for members in self.members.values():
            for member in members:
                if not member.alive:
                    raise FleetBroke(last_lines(member))

    def stop(self, role: str) -> None:
        """Stop all of a role with SIGTERM."""
        deadline, members = time.monotonic() + LEAVE_SECONDS, self.members[role]
        self.members[role] = []
        for member in members:
            member.wake()
            member.process.send_signal(signal.SIGTERM)
        for member in members:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                raise FleetBroke(f"a {role} did not leave:\n{member.log.read_text()[-3000:]}") from None
            if member.process.returncode not in (0, -signal.SIGTERM):  # which it gets if it is just coming up
                raise FleetBroke(last_lines(member))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for members in self.members.values():
            for member in members:
                member.kill()
