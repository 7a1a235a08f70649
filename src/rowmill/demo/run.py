"""The demo from start to end."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from rowmill.demo import proof, reads
from rowmill.demo.crew import Crew
from rowmill.demo.fate import Fates
from rowmill.demo.incidents import Freeze, Kill, Scene
from rowmill.demo.stage import DemoPlace, set_up
from rowmill.demo.view import DemoView, finished

TICK = 0.02
COUNT_EVERY = 0.15
KILL_AFTER = 0.2
FREEZE_AFTER = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    rows: int
    workers: int
    seed: int
    url: str | None = None
    """None: a SQLite file in a temporary folder."""
    keep: bool = False

    @property
    def limit(self) -> float:
        """Seconds after which the demo gives up: several times what it needs."""
        return 120.0 + self.rows / 100


async def run(options: Options, make_view: Callable[[], DemoView]) -> proof.Result:
    """Load the rows, process them with all incidents, and verify the result."""
    fates = Fates(options.rows, options.seed)
    began = time.monotonic()
    async with set_up(options.url, fates, keep=options.keep) as stage:
        view = make_view()
        try:
            return await _perform(options, stage, fates, view, began)
        finally:
            view.close()


async def _perform(options: Options, stage: DemoPlace, fates: Fates, view: DemoView, began: float) -> proof.Result:
    store = stage.queue.mill.url.get_backend_name()
    view.say(f"{options.rows:,} companies to enrich on {store}, {options.workers} worker processes")
    crew = Crew(stage.url, fates, stage.folder, options.workers, view.say)
    scene = Scene(crew, stage.queue, fates, view.say)
    kill, freeze = Kill(scene, KILL_AFTER), Freeze(scene, FREEZE_AFTER)
    try:
        crew.start()
        states, counted = await reads.states(stage.queue), 0.0
        while time.monotonic() - began < options.limit:
            crew.look()
            if time.monotonic() - counted >= COUNT_EVERY:
                counted = time.monotonic()
                states = await reads.states(stage.queue)
                view.show(states, crew.places)
            over = finished(states)
            for incident in (kill, freeze):
                await incident.tick(over / options.rows)
            if over == options.rows and not freeze.under_way:
                break
            await asyncio.sleep(TICK)
        view.show(states, crew.places)
        crew.stop()
    finally:
        crew.end()
    facts = await reads.facts(stage.queue)
    tally = proof.tally(facts, [member.ledger for member in crew.ever], fates)
    trouble = proof.Trouble(kill.kills, freeze.freezes, crew.crashes)
    return proof.Result(
        tally=tally,
        checks=proof.checks(tally, trouble, facts, fates),
        trouble=trouble,
        store=store,
        seconds=time.monotonic() - began,
        kept=stage.folder if options.keep else None,
    )
