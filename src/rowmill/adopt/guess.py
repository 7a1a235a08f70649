"""Guess the state column, and what its words mean."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt import known_names
from rowmill.adopt.table_facts import DOMAINS, MANY_WORDS, ColumnValues, TableFacts, has_few_words, words_in
from rowmill.model.errors import one_line
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import EpochUnit
from rowmill.model.states import Word

NEEDED = (StateKind.READY, StateKind.RUNNING, StateKind.DONE, StateKind.DEAD)
DEFAULT_LEASE = 900.0
STRONG = 3
"""Score of a column whose name says that it holds a state. Each kind of state among its words adds 2."""
CLEARLY_BETTER = 3
"""A column competes with the best one if its score is lower by less than this."""


@dataclass(frozen=True, slots=True)
class AdoptOptions:
    """Choices of the caller that override guesses."""

    state: str | None = None
    words: Mapping[StateKind, tuple[str, ...]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column by role, including `priority`."""
    new: frozenset[str] = frozenset()
    """Roles for which no existing column is used."""
    where: Mapping[StateKind, str] = field(default_factory=dict)
    """SQL conditions by state, for a table without a state column."""
    others: tuple[str, ...] = ()
    """Words that the queue ignores."""
    lower_first: bool = False
    epoch: EpochUnit | None = None
    lease: float = DEFAULT_LEASE


@dataclass(slots=True)
class StateGuess:
    """The words of a table, by meaning."""

    column: str | None
    """The state column; None if one must be added."""
    words: dict[StateKind, tuple[Word, ...]] = field(default_factory=dict)
    others: tuple[Word, ...] = ()
    """Words that the queue ignores."""
    unknown: dict[Any, int] = field(default_factory=dict)
    """Words with an unknown meaning, with row counts. None stands for NULL."""
    seen: dict[Any, int] = field(default_factory=dict)
    seen_all: bool = True
    doubts: list[str] = field(default_factory=list)
    """Guesses that a person must confirm before anything is changed."""
    notes: list[str] = field(default_factory=list)
    chosen_done: bool = False
    """Whether the caller gave the words for done."""


def guess_states(connection: Connection, facts: TableFacts, choices: AdoptOptions) -> StateGuess:
    """Find the state column and classify its words: the caller's choices first, then known words."""
    doubts: list[str] = []
    column, seen = find_state_column(connection, facts, choices, doubts)
    if column is None or seen is None:
        states = StateGuess(None, dict(_chosen(choices, None)), doubts=doubts)
        states.notes.append("no column holds a state: one is added")
    else:
        states = StateGuess(column.name, seen=seen.counts, seen_all=seen.complete, doubts=doubts)
        allowed = allowed_words(facts, column)
        vocabulary = list(dict.fromkeys([*seen.known, *allowed, *_default_of(column), *_indexed_words(facts, column)]))
        states.words = dict(_chosen(choices, column))
        states.others = _as_words(choices.others, column)
        states.chosen_done = StateKind.DONE in states.words
        told = {word for words in (*states.words.values(), states.others) for word in words}
        left = [word for word in vocabulary if word not in told]
        if isinstance(column.type, sa.Integer):
            _read_codes(states, left, column)
        else:
            _read_words(states, [str(word) for word in left], seen)
        mapped = {word for words in (*states.words.values(), states.others) for word in words}
        states.unknown = {word: n for word, n in seen.counts.items() if word not in mapped}
        if not isinstance(column.type, sa.Integer):
            _doubt_phases(states, [str(word) for word in vocabulary if word not in mapped])
            _doubt_beginning(states, _default_of(column), choices)
    _complete(states, facts)
    return states


@dataclass(frozen=True, slots=True)
class StateCandidate:
    """A column that may hold the state."""

    column: "Column[Any]"
    words: ColumnValues
    score: int
    certain: bool
    """Whether it would be the state column if it were the only candidate."""


def find_state_column(
    connection: Connection, facts: TableFacts, choices: AdoptOptions, doubts: list[str]
) -> "tuple[Column[Any] | None, ColumnValues | None]":
    """Return the column with a state-like name and few known words. Two candidates, or one that may be something else,
    add a doubt."""
    if choices.state is not None:
        column = facts.table.columns[choices.state]
        return column, words_in(connection, facts, column)
    own = next((name for name in facts.own_names("state") if name in facts.table.columns), None)
    if own is not None:
        return facts.table.columns[own], words_in(connection, facts, facts.table.columns[own])
    if "state" in choices.new or choices.where:
        return None, None
    found = [_candidate(connection, facts, column) for column in facts.table.columns]
    candidates = sorted((one for one in found if one is not None), key=lambda one: -one.score)
    if not (candidates and candidates[0].certain):
        doubts += [_unfit(column) for column in facts.table.columns if _is_unfit(column)]
    if not candidates:
        return None, None
    best = candidates[0]
    near = [one for one in candidates if one is best or one.score > best.score - CLEARLY_BETTER]
    if not best.certain or len(near) > 1:
        listed = "; ".join(f"{one.column.name} ({_seen(one)})" for one in near)
        doubts.append(
            f"which column holds the state of a row is not certain: {listed}. Say --state-column {best.column.name}, "
            "or another column; or, if none of them does, --new state"
        )
    return best.column, best.words


def _is_unfit(column: "Column[Any]") -> bool:
    """Return whether a column has a state-like name but can't hold a state."""
    unfit = column.primary_key or column.computed is not None or not _may_hold_states(column)
    return _name_score(column) == STRONG and unfit


def _unfit(column: "Column[Any]") -> str:
    why = f"{column.type}, neither text nor a number"
    if column.primary_key or column.computed is not None:
        why = "part of the key" if column.primary_key else "computed by the database"
    return (
        f"column {column.name} is called a state, but it is {why}: a queue can't keep its state in it. Say which rows "
        "are in which state with conditions on it (--done-where SQL and the like); or, if it says nothing of that, "
        "--new state"
    )


def _candidate(connection: Connection, facts: TableFacts, column: "Column[Any]") -> StateCandidate | None:
    named = _name_score(column)
    if column.primary_key or column.computed is not None or not _may_hold_states(column):
        return None
    if not named and (column.foreign_keys or isinstance(column.type, sa.Integer)):
        return None
    if not named and not has_few_words(connection, facts, column):
        return None
    words = words_in(connection, facts, column)
    if len(words.counts) > MANY_WORDS:
        return None
    vocabulary = [*words.known, *allowed_words(facts, column), *_default_of(column)]
    kinds = {known_names.meaning(known_names.plain(str(word)), frozenset()) for word in vocabulary} - {None}
    if not named and len(kinds) < 2:
        return None
    reported = known_names.plain(column.name).split("_")[0] in known_names.PAYLOAD_STATES
    indexed = facts.is_indexed_first(column.name)
    score = named + 2 * len(kinds) + (2 if indexed else 0) - (3 if reported else 0)
    return StateCandidate(column, words, score, certain=not reported and (named == STRONG or (named > 0 and indexed)))


def _seen(one: StateCandidate) -> str:
    """List the values of a column for the report, most frequent first. For a column without a state-like name, only
    known words: other values may be private."""
    named = _name_score(one.column) > 0
    shown = {
        word: n
        for word, n in one.words.counts.items()
        if word is None or named or known_names.meaning(known_names.plain(str(word)), frozenset())
    }
    some = [f"{'NULL' if word is None else one_line(str(word))[:30]}: {n:,}" for word, n in shown.items()][:6]
    more = [f"{len(one.words.counts) - len(some)} other values"] if len(one.words.counts) > len(some) else []
    return ", ".join([*some, *more]) or "empty"


def _name_score(column: "Column[Any]") -> int:
    parts = known_names.plain(column.name).split("_")
    if parts[-1] in known_names.STATE_NAMES or parts[-1].endswith("status"):
        return STRONG
    refers = len(parts) > 1 and parts[-1] == "id" and parts[-2] in known_names.STATE_NAMES  # status_id
    return 1 if refers or parts[-1] in known_names.WEAK_STATE_NAMES else 0


def _doubt_phases(states: StateGuess, unknown: list[str]) -> None:
    """Add a doubt if words look like phases. They need stages: merging them would skip work, ignoring them would lose
    it."""
    done = states.words.get(StateKind.DONE, ())
    others = [word for word in done if known_names.plain(str(word)) not in known_names.SAME_AS_DONE]
    strange = [word for word in unknown if known_names.meaning(known_names.plain(word), frozenset()) is None]
    phases = [word for word in strange if known_names.phases([known_names.plain(word)])]
    if len(done) > 1 and others and not states.chosen_done:
        phases = [*(str(word) for word in done), *phases]
    if phases:
        are = "may be a phase of those" if len(phases) == 1 else "may be phases"
        states.doubts.append(
            f"{_listed(phases)} {are} that a row passes one after the other, and this plan has one. Declare "
            "each with rm.Stage in your code; or say what each word means: --ready, --running, --done, --dead or "
            "--cancelled WORD; --other WORD leaves its rows alone"
        )


def _doubt_beginning(states: StateGuess, beginning: list[Word], choices: AdoptOptions) -> None:
    """Add a doubt if new rows start in a state that is not ready: either it means ready, or another process makes them
    ready."""
    for word in beginning:
        kind = next((kind for kind, words in states.words.items() if word in words), None)
        if kind not in (None, StateKind.READY, StateKind.WAITING) and kind not in choices.words:
            states.doubts.append(
                f"new rows begin as {word!r}, which is taken for {kind}: if they are to be worked on, say "
                f"--ready {word}; if not, --{kind} {word}"
            )
        elif kind is None and word not in states.others and StateKind.READY in states.words:
            states.notes.append(
                f"new rows begin as {word!r}, which is left alone: something must make them "
                f"{states.words[StateKind.READY][0]!r}. If they are ready, say --ready {word}"
            )


def _may_hold_states(column: "Column[Any]") -> bool:
    return isinstance(column.type, (sa.String, sa.Integer))


def _chosen(choices: AdoptOptions, column: "Column[Any] | None") -> Iterable[tuple[StateKind, tuple[Word, ...]]]:
    for kind, words in choices.words.items():
        if words:
            yield kind, _as_words(words, column)


def _as_words(words: Iterable[str], column: "Column[Any] | None") -> tuple[Word, ...]:
    numbers = column is not None and isinstance(column.type, sa.Integer)
    return tuple(int(word) if numbers and re.fullmatch(r"-?\d+", word) else word for word in words)


def allowed_words(facts: TableFacts, column: "Column[Any]") -> list[Word]:
    """Return the words that an enum type, a CHECK or a domain allows; none if there is no restriction."""
    if isinstance(column.type, sa.Enum):
        return list(column.type.enums)
    for words in (*(words_of_check(check, column.name) for _, check in facts.checks), words_of_domain(column)):
        if words:
            return [int(word) for word in words] if isinstance(column.type, sa.Integer) else list(words)
    return []


def words_of_domain(column: "Column[Any]") -> list[str]:
    """Return the words that the domains of a column allow; none if there is no restriction."""
    checks = [domain.check for domain in column.info.get(DOMAINS, ()) if domain.check is not None]
    return next((words for check in checks if (words := words_of_check(str(check), "VALUE"))), [])


def words_of_check(condition: str, column: str) -> list[str]:
    """Parse the words of `status IN ('a', 'b')` as either database prints it; none for another kind of condition."""
    bare = re.sub(r"::\w+( varying)?(\[\])?", "", condition).replace("(", " ").replace(")", " ").replace('"', " ")
    listed = re.fullmatch(
        rf"\s*\[?`?{re.escape(column)}`?\]?\s+(?:=\s*any\s+array\s*\[(?P<array>.*)\]|in\s+(?P<list>.*))\s*",
        bare,
        re.IGNORECASE | re.DOTALL,
    )
    if listed is None:
        return []
    inside = listed["array"] if listed["array"] is not None else listed["list"]
    if not re.fullmatch(r"(\s*('(?:[^']|'')*'|-?\d+)\s*,?)+", inside):
        return []
    return [
        text.replace("''", "'") if text or not number else number
        for text, number in re.findall(r"'((?:[^']|'')*)'|(-?\d+)", inside)
    ]


def _default_of(column: "Column[Any]") -> list[Word]:
    """Return the default word for new rows."""
    default = column.server_default
    text = str(getattr(getattr(default, "arg", None), "text", None) or getattr(default, "arg", ""))
    literal = re.match(r"\s*'((?:[^']|'')*)'", text) or re.match(r"\s*(-?\d+)\s*$", text)
    if literal is None:
        return []
    return [int(literal[1])] if isinstance(column.type, sa.Integer) else [literal[1].replace("''", "'")]


def _indexed_words(facts: TableFacts, column: "Column[Any]") -> list[Word]:
    """Return the words in conditions of partial indexes, such as `WHERE status = 'pending'`. Queues index their ready
    rows like this."""
    if not isinstance(column.type, sa.String):
        return []
    found: list[Word] = []
    for condition in facts.index_conditions(column.name):
        found += [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", condition)]
    return found if not isinstance(column.type, sa.Enum) else []


def _read_words(states: StateGuess, vocabulary: list[str], seen: ColumnValues) -> None:
    prefix = known_names.shared_prefix([known_names.plain(word) for word in vocabulary])
    plain = {word: known_names.plain(word).removeprefix(prefix) for word in vocabulary}
    others = frozenset(plain.values())
    by_kind: dict[StateKind, list[str]] = {}
    for word in vocabulary:
        kind = known_names.meaning(plain[word], others)
        if kind is not None and kind not in states.words:
            by_kind.setdefault(kind, []).append(word)
    for kind, words in by_kind.items():
        rank = known_names.WORDS[kind].index
        # The word that most rows have is the one to write; of two that none has, the better known.
        words.sort(
            key=lambda word: (-seen.counts.get(word, 0) if kind is not StateKind.READY else 0, rank(plain[word]))
        )
        together = words
        if kind in (StateKind.READY, StateKind.WAITING):
            together = words[:1]
        elif kind is StateKind.RUNNING and len(words) > 1:
            together = [word for word in words if plain[word] in known_names.SAME_AS_RUNNING] or words[:1]
        states.words[kind] = tuple(together)
        aside = [word for word in words if word not in together]
        if aside:
            both = " ".join(f"--{kind} {word}" for word in (*together, *aside))
            states.doubts.append(
                f"{_listed(words)} may all mean {kind}, and only {_listed(together)} is taken so: rows under the "
                f"others would be left alone. Say {both}, if all of them do; --other {aside[0]} leaves rows alone on "
                "purpose"
            )
    if len(by_kind.get(StateKind.DEAD, [])) > 1:
        states.notes.append(
            f"{_listed(states.words[StateKind.DEAD])} are all taken for dead, which is safe: such rows are never tried "
            "again by themselves. If one of them is meant to be, say --waiting WORD"
        )


def _read_codes(states: StateGuess, left: list[Any], column: "Column[Any]") -> None:
    """Classify integer codes by the column's comment, or by common numbering. The latter must be confirmed."""
    commented = {
        int(code): known_names.meaning(known_names.plain(word), frozenset())
        for code, word in re.findall(r"(-?\d+)\s*(?:=>?|:|-|is)\s*([A-Za-z][\w -]*)", column.comment or "")
    }
    if any(commented.values()):
        for code, kind in commented.items():
            if kind is not None and kind not in states.words:
                states.words[kind] = (code,)
        return
    codes = {word for word in left if isinstance(word, int)}
    missing = [kind for kind in NEEDED if kind not in states.words]
    if not missing:
        return
    used = {word for words in states.words.values() for word in words}
    for usual in known_names.CODES:
        if codes and codes <= set(usual.values()) and not used:
            for kind, code in usual.items():
                if kind in NEEDED or code in codes:
                    states.words[kind] = (code,)
            break
    missing = [kind for kind in NEEDED if kind not in states.words] or missing
    states.doubts.append(
        f"column {column.name} holds numbers, and what they mean is a guess: say it with "
        + " ".join(f"--{kind} N" for kind in missing)
    )


def _complete(states: StateGuess, facts: TableFacts) -> None:
    """Choose a word for each state that has none yet, in the style of the table."""
    known = [word for words in states.words.values() for word in words]
    numbers = [word for word in [*known, *states.seen] if isinstance(word, int)]
    for kind in NEEDED:
        if states.words.get(kind):
            continue
        new: Word
        if states.column is None or states.words.get(StateKind.READY) == ("ready",):
            new = str(kind)
        elif numbers or isinstance(facts.table.columns[states.column].type, sa.Integer):
            new = max([*numbers, -1]) + 1
            numbers.append(new)
        else:
            taken = [str(word) for word in (*known, *states.others, *states.seen)]
            new = known_names.in_style(known_names.WRITTEN[kind], [str(word) for word in known])
            if new in taken:
                new = known_names.in_style(str(kind), [str(word) for word in known])
        states.words[kind] = (new,)
        if states.column is not None:
            states.notes.append(f"there is no word for {kind} yet: {new!r} is used")
            if kind is StateKind.READY:
                states.doubts.append(_doubt_ready(states))


def _doubt_ready(states: StateGuess) -> str:
    text = (
        f"no word of column {states.column} says which rows are ready: say it with --ready WORD; or, if it holds "
        "something else, --new state"
    )
    if None in states.seen:
        text += (
            ". If it is NULL where rows are ready, a queue needs a word for that: give it one with an UPDATE and a "
            "default; or say --new state --done-where SQL, and the like"
        )
    return text


def _listed(words: Iterable[Word]) -> str:
    return ", ".join(repr(word) for word in words)
