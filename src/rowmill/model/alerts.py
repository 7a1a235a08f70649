"""Decides when a queue raises an alert. The facts come in as arguments."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rowmill.model.duration import DurationField
from rowmill.model.option_names import checks_options


class AlertSeverity(StrEnum):
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


@checks_options
@dataclass(frozen=True)
class Alerts:
    """The limits of a queue beyond which `rowmill watch` raises an alert. None: never. Durations are seconds or a
    `timedelta`."""

    backlog: int | None = None
    """Rows that wait to be worked on."""
    oldest: DurationField[float | None] = DurationField(900.0)
    """How many seconds a row that could be worked on may wait."""
    died: int | None = 0
    """Rows that died in the last hour."""
    unattended: DurationField[float | None] = DurationField(120.0)
    """How many seconds no worker of this queue may be seen. None for a queue that is drained by cron."""
    unwritten: DurationField[float | None] = DurationField(30.0)
    """How many seconds a living worker may be unable to write what it has finished."""


@dataclass(frozen=True, slots=True)
class QueueObservation:
    """What the watcher observed of a queue."""

    backlog: int = 0
    """Rows that wait, counted up to one beyond the limit."""
    oldest: float | None = None
    died: int = 0
    unattended: float | None = None
    """Seconds since a worker was seen; None if no worker is known."""
    unwritten: float | None = None
    """Seconds that a worker could not write; None if everything is written."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that holds now and that somebody should look at."""

    alert: str
    severity: AlertSeverity
    queue: str = ""
    value: float | None = None
    limit: float | None = None
    reconciliation: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.alert, self.queue, self.reconciliation


UNREACHABLE = Alert("DATABASE_UNREACHABLE", AlertSeverity.CRITICAL)


def alerts_of(queue: str, limits: Alerts, seen: QueueObservation) -> Iterator[Alert]:
    if limits.backlog is not None and seen.backlog > limits.backlog:
        yield Alert("BACKLOG_HIGH", AlertSeverity.WARNING, queue, seen.backlog, limits.backlog)
    if limits.oldest is not None and seen.oldest is not None and seen.oldest > limits.oldest:
        yield Alert("ROWS_WAIT_TOO_LONG", AlertSeverity.ERROR, queue, round(seen.oldest, 1), limits.oldest)
    if limits.died is not None and seen.died > limits.died:
        yield Alert("ROWS_DIED", AlertSeverity.ERROR, queue, seen.died, limits.died)
    if limits.unattended is not None and (seen.unattended is None or seen.unattended > limits.unattended):
        ago = None if seen.unattended is None else round(seen.unattended, 1)
        yield Alert("NOBODY_WORKS", AlertSeverity.CRITICAL, queue, ago, limits.unattended)
    if limits.unwritten is not None and seen.unwritten is not None and seen.unwritten > limits.unwritten:
        yield Alert("ROWS_NOT_WRITTEN", AlertSeverity.ERROR, queue, round(seen.unwritten, 1), limits.unwritten)


def alerts_of_run(reconciliation: str, above: int, findings: int, outcome: str | None) -> Iterator[Alert]:
    """Yield the alerts of the last finished run of a reconciliation. A run that could not read every inventory raises
    one of its own: that it found nothing proves nothing."""
    if findings > above:
        yield Alert(
            "RECONCILIATION_DRIFT", AlertSeverity.ERROR, value=findings, limit=above, reconciliation=reconciliation
        )
    if outcome != "ok":
        yield Alert("RECONCILIATION_INCOMPLETE", AlertSeverity.WARNING, reconciliation=reconciliation)
