"""The words that a table uses for the states of the lifecycle."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator, TypeEngine

from rowmill.model.duration import Duration, DurationField, in_seconds
from rowmill.model.lifecycle import StateKind
from rowmill.model.option_names import checks_options
from rowmill.model.retry import Retry

Word = str | int | Enum
Words = Word | tuple[Word, ...]
"""One word, or several with the same meaning: the first is written, all are understood."""


def tuple_of(words: Words | None) -> tuple[Word, ...]:
    if words is None:
        return ()
    return tuple(words) if isinstance(words, (tuple, list)) else (words,)


def as_value(word: Word, kind: "TypeEngine[Any]") -> Any:
    """Return a state word as a value for a column of this type. An enum member stays itself for enum types and becomes
    its value for others."""
    return word.value if isinstance(word, Enum) and not isinstance(kind, (sa.Enum, TypeDecorator)) else word


@checks_options
@dataclass(frozen=True, slots=True)
class States:
    """The words for the states. Without `waiting`, a row that waits for its next try has the ready word again; without
    `cancelled`, rows can't be cancelled. The queue leaves rows with a word of `others` alone, such as `archived`."""

    ready: Words = "ready"
    running: Words = "running"
    done: Words = "done"
    dead: Words = "dead"
    waiting: Words | None = None
    cancelled: Words | None = None
    others: Words | None = None


@checks_options
@dataclass(frozen=True)
class Stage:
    """One step of a row's journey. An option that is None is taken from the queue. `lease` and `timeout` are seconds or
    a `timedelta`."""

    name: str
    ready: Words
    running: Words
    waiting: Words | None = None
    retry: Retry | None = None
    lease: DurationField[float | None] = DurationField(None)
    timeout: DurationField[float | None] = DurationField(None)


@dataclass(frozen=True, slots=True)
class Step:
    """A stage with all of its options resolved, and the stage that it leads to."""

    name: str
    ready: tuple[Word, ...]
    running: tuple[Word, ...]
    waiting: tuple[Word, ...]
    retry: Retry
    lease: float
    timeout: float | None
    following: Word | None
    """The ready word of the next stage; None after the last one."""

    @property
    def claimable(self) -> tuple[Word, ...]:
        return tuple(dict.fromkeys(self.ready + self.waiting))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every word that a table may hold, and its meaning."""

    steps: tuple[Step, ...]
    done: tuple[Word, ...]
    dead: tuple[Word, ...]
    cancelled: tuple[Word, ...]
    others: tuple[Word, ...] = ()
    """Words that the queue neither reads nor writes."""

    def of(self, kind: StateKind) -> tuple[Word, ...]:
        match kind:
            case StateKind.READY:
                found = [word for step in self.steps for word in step.ready]
            case StateKind.WAITING:
                found = [word for step in self.steps for word in step.waiting or step.ready]
            case StateKind.RUNNING:
                found = [word for step in self.steps for word in step.running]
            case StateKind.DONE:
                return self.done
            case StateKind.DEAD:
                return self.dead
            case StateKind.CANCELLED:
                return self.cancelled
        return tuple(dict.fromkeys(found))

    def all_of(self, kinds: frozenset[StateKind]) -> tuple[Word, ...]:
        return tuple(dict.fromkeys(word for kind in StateKind if kind in kinds for word in self.of(kind)))

    def kind(self, word: Word) -> StateKind | None:
        """Return what a word means: READY for a word that is both ready and waiting, None for an unknown one."""
        return next((kind for kind in StateKind if word in self.of(kind)), None)

    def step_of(self, word: Word) -> Step | None:
        """Return the stage of a row in this state; None if the state is final."""
        return next((step for step in self.steps if word in step.claimable + step.running), None)

    def meanings(self) -> Iterator[tuple[Word, str]]:
        """Yield each word with each meaning it was given, to find words with two meanings."""
        for step in self.steps:
            for word in step.claimable:
                yield word, f"ready of stage {step.name}"
            for word in step.running:
                yield word, f"running of stage {step.name}"
        for kind, words in (
            (StateKind.DONE, self.done),
            (StateKind.DEAD, self.dead),
            (StateKind.CANCELLED, self.cancelled),
        ):
            for word in words:
                yield word, str(kind)


def vocabulary(
    states: States,
    stages: tuple[Stage, ...],
    retry: Retry,
    lease: Duration,
    timeout: Duration | None,
) -> Vocabulary:
    """Resolve the states and stages of a declaration. A plain queue is a pipeline of one stage."""
    if not stages:
        stages = (Stage("work", states.ready, states.running, states.waiting),)
    following = [tuple_of(stage.ready)[0] if tuple_of(stage.ready) else None for stage in stages[1:]]
    steps = tuple(
        Step(
            name=stage.name,
            ready=tuple_of(stage.ready),
            running=tuple_of(stage.running),
            waiting=tuple_of(stage.waiting),
            retry=stage.retry or retry,
            lease=stage.lease if stage.lease is not None else in_seconds(lease),
            timeout=stage.timeout if stage.timeout is not None else in_seconds(timeout),
            following=after,
        )
        for stage, after in zip(stages, [*following, None], strict=True)
    )
    final = (tuple_of(states.done), tuple_of(states.dead), tuple_of(states.cancelled))
    return Vocabulary(steps, *final, others=tuple_of(states.others))
