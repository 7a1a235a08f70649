"""The output of a running demo: a live view on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rowmill.demo.crew import Condition, Member
from rowmill.demo.proof import Result

COLOURS = {"done": "green", "dead": "red", "running": "cyan", "waiting": "yellow", "ready": "white"}
CONDITIONS = {
    Condition.STARTING: "dim",
    Condition.WORKING: "green",
    Condition.FROZEN: "bold blue",
    Condition.DEAD: "red",
}
EVENTS = 12
LINE_EVERY = 2.0


def view_for(console: Console, rows: int) -> "DemoView":
    return LiveView(console, rows) if console.is_terminal else PlainView(console)


class DemoView(Protocol):
    def say(self, event: str) -> None:
        """Report an event."""

    def show(self, states: Mapping[str, int], crew: Sequence[Member]) -> None:
        """Show the current states and workers."""

    def close(self) -> None:
        """End the view."""


class DemoClock:
    """Measures the time since the start, and the recent rate of finished rows."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lately: deque[tuple[float, int]] = deque(maxlen=10)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def rate(self, finished: int) -> float:
        now = self.seconds
        self._lately.append((now, finished))
        then, before = self._lately[0]
        return (finished - before) / (now - then) if now > then else 0.0


class PlainView:
    """Prints lines for a log."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = DemoClock()
        self._next = 0.0

    def say(self, event: str) -> None:
        self._console.print(f"[{self._clock.seconds:5.1f} s] {event}", markup=False, highlight=False, soft_wrap=True)

    def show(self, states: Mapping[str, int], crew: Sequence[Member]) -> None:
        rate = self._clock.rate(finished(states))
        if self._clock.seconds >= self._next:
            self._next = self._clock.seconds + LINE_EVERY
            counts = ", ".join(f"{states.get(state, 0):,} {state}" for state in COLOURS)
            self.say(f"{counts} ({rate:,.0f} rows/s)")

    def close(self) -> None:
        pass


class LiveView:
    """Draws bars, workers and the latest events a few times per second."""

    def __init__(self, console: Console, rows: int) -> None:
        self._rows = rows
        self._clock = DemoClock()
        self._events: deque[tuple[float, str]] = deque(maxlen=EVENTS)
        self._live = Live(console=console, refresh_per_second=8, transient=False)
        self._live.start()

    def say(self, event: str) -> None:
        self._events.append((self._clock.seconds, event))

    def show(self, states: Mapping[str, int], crew: Sequence[Member]) -> None:
        rate = self._clock.rate(finished(states))
        title = f"{self._rows:,} companies · {self._clock.seconds:.0f} s · {rate:,.0f} rows/s"
        self._live.update(
            Group(Panel(self._bars(states), title=title), Panel(workers(crew), title="workers"), self._latest())
        )

    def _bars(self, states: Mapping[str, int]) -> RenderableType:
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(width=8)
        table.add_column(ratio=1)
        table.add_column(justify="right", width=8)
        for state, colour in COLOURS.items():
            number = states.get(state, 0)
            bar = ProgressBar(total=self._rows, completed=number, complete_style=colour, finished_style=colour)
            table.add_row(Text(state, colour), bar, f"{number:,}")
        return table

    def _latest(self) -> RenderableType:
        lines = [Text.assemble((f"{seconds:6.1f} s  ", "dim"), event) for seconds, event in self._events]
        return Group(*lines)

    def close(self) -> None:
        self._live.stop()


def workers(crew: Sequence[Member]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for member in crew:
        table.add_row(
            f"worker {member.place}",
            f"process {member.pid}",
            Text(member.condition, CONDITIONS[member.condition]),
            f"{len(member.ledger.inside)} handlers running, {len(member.ledger.starts):,} begun",
        )
    return table


def finished(states: Mapping[str, int]) -> int:
    return states.get("done", 0) + states.get("dead", 0)


def summary(result: Result) -> Text:
    """Return the result of the verification as text."""
    lines = [Text(f"\nThe proof, after {result.seconds:.1f} s on {result.store}:", "bold")]
    for check in result.checks:
        mark = ("  ✓ ", "bold green") if check.holds else ("  ✗ ", "bold red")
        lines.append(Text.assemble(mark, check.claim, (f": {check.numbers}", "dim")))
    if result.kept is not None:
        lines.append(Text(f"Kept in {result.kept}"))
    lines.append(Text("It holds.", "bold green") if result.holds else Text("It does not hold.", "bold red"))
    return Text("\n").join(lines)
