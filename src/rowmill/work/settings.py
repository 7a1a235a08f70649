"""How a worker behaves. Read once, at the edge, and frozen."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rowmill.model.errors import BadRequest

PREFIX = "ROWMILL_"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Times in seconds. Each is also read from the environment by `rowmill work` and `rowmill drain`:
    `poll_max` from ROWMILL_POLL_MAX, and so on."""

    poll_base: float = 0.1
    """The first wait of a worker that found nothing; it grows by half each time."""
    poll_max: float = 5.0
    """The longest wait between two looks."""
    grace: float = 30.0
    """How long running handlers may take to finish when the worker is told to stop."""
    heartbeat: float = 2.0
    """Between two signs of life."""
    rescue_every: float = 10.0
    """Between two sweeps for rows of dead workers, by the one worker that does it for all."""
    rescue_most: int = 500
    """Rows per sweep and stage."""
    keep_history: float = 30 * 86400.0
    """How long failed attempts and throughput are kept."""


MAY_BE_ZERO = {"grace", "keep_history"}


def from_environment(
    given: WorkerSettings | None = None, environment: Mapping[str, str] | None = None
) -> WorkerSettings:
    """The settings with what the environment says in their place. What is wrong is said all at once."""
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


def number(name: str, text: str) -> float | int:
    """The value of a setting from text, or why it is none."""
    kind = int if name == "rescue_most" else float
    try:
        value = kind(text)
    except ValueError:
        raise ValueError("a whole number is needed" if kind is int else "a number of seconds is needed") from None
    if not math.isfinite(value) or value < 0 or (value == 0 and name not in MAY_BE_ZERO):
        raise ValueError("it must be 0 or more" if name in MAY_BE_ZERO else "it must be more than 0")
    return value
