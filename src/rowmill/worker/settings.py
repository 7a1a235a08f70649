"""The settings of a worker: read once, at the edge, and frozen."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rowmill.model.duration import DurationField
from rowmill.model.errors import BadRequest
from rowmill.model.option_names import checks_options

PREFIX = "ROWMILL_"


@dataclass(frozen=True, slots=True)
class OwnTableRetention:
    """How many seconds rows of Rowmill's own tables are kept, other than failed attempts."""

    throughput: float = 30 * 86400.0
    workers: float = 30 * 86400.0
    ticks: float = 7 * 86400.0


@checks_options
@dataclass(frozen=True)
class WorkerSettings:
    """How a worker behaves. Times are seconds or a `timedelta`, sizes are bytes. `rowmill work` and `rowmill drain`
    read each setting from the environment, too: `poll_max` from ROWMILL_POLL_MAX, and so on."""

    poll_base: DurationField[float] = DurationField(0.1)
    """The first wait after a poll that found no rows. It grows by half each time."""
    poll_max: DurationField[float] = DurationField(5.0)
    """The longest wait between two polls, including jitter."""
    grace: DurationField[float] = DurationField(25.0)
    """How long handlers may take to finish after a signal to stop. Kubernetes kills after 30 seconds."""
    claimed_bytes: int = 256 << 20
    """Memory that all claimed rows of a process may use together, in bytes or as 512M or 1G."""
    heartbeat: DurationField[float] = DurationField(2.0)
    """Time between two heartbeats."""
    rescue_every: DurationField[float] = DurationField(10.0)
    """Time between two rescues of rows of dead workers. One worker does it for all."""
    rescue_most: int = 500
    """Most rows per rescue and stage."""
    keep_history: DurationField[float] = DurationField(30 * 86400.0)
    """How long failed attempts are kept."""
    keep_throughput: DurationField[float] = DurationField(30 * 86400.0)
    """How long the throughput per minute is kept."""
    keep_workers: DurationField[float] = DurationField(30 * 86400.0)
    """How long workers are listed after their last heartbeat. At least a day."""
    keep_ticks: DurationField[float] = DurationField(7 * 86400.0)
    """How long finished ticks of schedules are kept."""

    strict: bool = False
    """Fail a row whose handler changed `lease.row` without returning the change. Default: log a warning."""
    tracebacks: bool = False
    """Store the traceback of each failed attempt: files and lines, no values. Also on at log level debug."""

    @property
    def ages(self) -> OwnTableRetention:
        return OwnTableRetention(self.keep_throughput, self.keep_workers, self.keep_ticks)

    def __post_init__(self) -> None:
        """Raise BadRequest that names every wrong value."""
        problems = []
        for field in fields(self):
            value = getattr(self, field.name)
            try:
                check(field.name, value)
            except ValueError as error:
                problems.append(f"{field.name} is {value!r}: {error}")
        if problems:
            raise BadRequest("; ".join(problems))


BYTES = {"claimed_bytes"}
WHOLE = {"rescue_most"} | BYTES
UNITS = {"K": 10, "M": 20, "G": 30}
SWITCHES = {"strict", "tracebacks"}
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
MAY_BE_ZERO = {"grace", "keep_history", "keep_throughput", "keep_workers", "keep_ticks"}


def from_environment(
    given: WorkerSettings | None = None, environment: Mapping[str, str] | None = None
) -> WorkerSettings:
    """Return the settings, overridden by variables of the environment. Raise BadRequest that names every wrong one."""
    source = os.environ if environment is None else environment
    changes: dict[str, Any] = {}
    problems = []
    for field in fields(WorkerSettings):
        text = source.get(PREFIX + field.name.upper(), "").strip()
        if text:
            try:
                changes[field.name] = number(field.name, text)
            except ValueError as error:
                problems.append(f"{PREFIX}{field.name.upper()} is {text!r}: {error}")
    if problems:
        raise BadRequest("; ".join(problems))
    return replace(given or WorkerSettings(), **changes)


def number(name: str, text: str) -> float | int | bool:
    """Return the value of a setting from text. Raises ValueError with the reason."""
    if name in SWITCHES:
        if text.lower() not in ON + OFF:
            raise ValueError(needed(name))
        return text.lower() in ON
    try:
        value = size(text) if name in BYTES else int(text) if name in WHOLE else float(text)
    except ValueError:
        raise ValueError(needed(name)) from None
    check(name, value)
    return value


def size(text: str) -> int:
    """Return a number of bytes from text such as 1048576, 1024K or 1M."""
    unit = text[-1:].upper()
    return int(text[:-1]) << UNITS[unit] if unit in UNITS else int(text)


def check(name: str, value: Any) -> None:
    """Raise ValueError if this can't be the value of a setting."""
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise ValueError(needed(name))
        return
    kinds = int if name in WHOLE else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ValueError(needed(name))
    if not math.isfinite(value) or value < 0 or (value == 0 and name not in MAY_BE_ZERO):
        raise ValueError("it must be 0 or more" if name in MAY_BE_ZERO else "it must be more than 0")


def needed(name: str) -> str:
    if name in SWITCHES:
        return "true or false is needed"
    if name in BYTES:
        return "a number of bytes is needed, such as 268435456 or 256M"
    return "a whole number is needed" if name in WHOLE else "a number of seconds is needed"
