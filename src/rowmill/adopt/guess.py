"""The column that holds the state, and what its words mean."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.adopt import known_names
from rowmill.adopt.look import DOMAINS, MANY_WORDS, ColumnValues, TableFacts, has_few_words, words_in
from rowmill.model.errors import one_line
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import EpochUnit
from rowmill.model.states import Word

NEEDED = (StateKind.READY, StateKind.RUNNING, StateKind.DONE, StateKind.DEAD)
DEFAULT_LEASE = 900.0
STRONG = 3
"""Score of a column whose name says that it holds a state; each kind of state among its words adds 2."""
CLEARLY_BETTER = 3
"""A column that is behind the best by less than this competes with it."""


@dataclass(frozen=True, slots=True)
class AdoptOptions:
    """What the caller knows better than a guess."""

    state: str | None = None
    words: Mapping[StateKind, tuple[str, ...]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    """By role; `priority` among them."""
    new: frozenset[str] = frozenset()
    """Roles for which no column of the table is taken."""
    where: Mapping[StateKind, str] = field(default_factory=dict)
    """Conditions in SQL that say which rows of a table without a state are in which."""
    others: tuple[str, ...] = ()
    """Words that the queue leaves alone."""
    lower_first: bool = False
    epoch: EpochUnit | None = None
    lease: float = DEFAULT_LEASE


@dataclass(slots=True)
class StateGuess:
    """The words of a table, by meaning."""

    column: str | None
    """None: no column holds a state, so one must be added."""
    words: dict[StateKind, tuple[Word, ...]] = field(default_factory=dict)
    others: tuple[Word, ...] = ()
    """Words that are left alone on purpose."""
    unknown: dict[Any, int] = field(default_factory=dict)
    """Words that mean nothing to us, with the rows seen; None is a NULL."""
    seen: dict[Any, int] = field(default_factory=dict)
    seen_all: bool = True
    doubts: list[str] = field(default_factory=list)
    """What a person must confirm before anything is changed."""
    notes: list[str] = field(default_factory=list)
    chosen_done: bool = False
    """Did the caller name the words for done?"""


def guess_states(connection: Connection, look: TableFacts, wishes: AdoptOptions) -> StateGuess:
    """Find the column and read its words: those of the caller first, then what they are called."""
    doubts: list[str] = []
    column, seen = find_state_column(connection, look, wishes, doubts)
    if column is None or seen is None:
        states = StateGuess(None, dict(_chosen(wishes, None)), doubts=doubts)
        states.notes.append("no column holds a state: one is added")
    else:
        states = StateGuess(column.name, seen=seen.counts, seen_all=seen.complete, doubts=doubts)
        allowed = allowed_words(look, column)
        vocabulary = list(dict.fromkeys([*seen.known, *allowed, *_default_of(column), *_indexed_words(look, column)]))
        states.words = dict(_chosen(wishes, column))
        states.others = _as_words(wishes.others, column)
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
            _doubt_beginning(states, _default_of(column), wishes)
    _complete(states, look)
    return states


@dataclass(frozen=True, slots=True)
class StateCandidate:
    """A column that may hold the state."""

    column: "Column[Any]"
    words: ColumnValues
    score: int
    certain: bool
    """Would it be the state, if it were the only one?"""


def find_state_column(
    connection: Connection, look: TableFacts, wishes: AdoptOptions, doubts: list[str]
) -> "tuple[Column[Any] | None, ColumnValues | None]":
    """The column whose name says state and whose few words are known ones. Two of them, or one that may be something
    else, are a doubt."""
    if wishes.state is not None:
        column = look.table.columns[wishes.state]
        return column, words_in(connection, look, column)
    own = next((name for name in look.own_names("state") if name in look.table.columns), None)
    if own is not None:
        return look.table.columns[own], words_in(connection, look, look.table.columns[own])
    if "state" in wishes.new or wishes.where:
        return None, None
    found = [_candidate(connection, look, column) for column in look.table.columns]
    candidates = sorted((one for one in found if one is not None), key=lambda one: -one.score)
    if not (candidates and candidates[0].certain):
        doubts += [_unfit(column) for column in look.table.columns if _is_unfit(column)]
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
    """Is it called a state, and can't be one?"""
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


def _candidate(connection: Connection, look: TableFacts, column: "Column[Any]") -> StateCandidate | None:
    named = _name_score(column)
    if column.primary_key or column.computed is not None or not _may_hold_states(column):
        return None
    if not named and (column.foreign_keys or isinstance(column.type, sa.Integer)):
        return None
    if not named and not has_few_words(connection, look, column):
        return None
    words = words_in(connection, look, column)
    if len(words.counts) > MANY_WORDS:
        return None
    vocabulary = [*words.known, *allowed_words(look, column), *_default_of(column)]
    kinds = {known_names.meaning(known_names.plain(str(word)), frozenset()) for word in vocabulary} - {None}
    if not named and len(kinds) < 2:
        return None
    reported = known_names.plain(column.name).split("_")[0] in known_names.PAYLOAD_STATES
    indexed = look.is_indexed_first(column.name)
    score = named + 2 * len(kinds) + (2 if indexed else 0) - (3 if reported else 0)
    return StateCandidate(column, words, score, certain=not reported and (named == STRONG or (named > 0 and indexed)))


def _seen(one: StateCandidate) -> str:
    """The states that a column holds, most frequent first, for a person to recognise. Of a column that is not called a
    state, only words that are known ones: the others may be anything."""
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
    """A row that passes several phases needs stages: to merge them would skip work, to leave them would lose it."""
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


def _doubt_beginning(states: StateGuess, beginning: list[Word], wishes: AdoptOptions) -> None:
    """New rows begin as something that is not ready: either they are, or something else makes them so."""
    for word in beginning:
        kind = next((kind for kind, words in states.words.items() if word in words), None)
        if kind not in (None, StateKind.READY, StateKind.WAITING) and kind not in wishes.words:
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


def _chosen(wishes: AdoptOptions, column: "Column[Any] | None") -> Iterable[tuple[StateKind, tuple[Word, ...]]]:
    for kind, words in wishes.words.items():
        if words:
            yield kind, _as_words(words, column)


def _as_words(words: Iterable[str], column: "Column[Any] | None") -> tuple[Word, ...]:
    numbers = column is not None and isinstance(column.type, sa.Integer)
    return tuple(int(word) if numbers and re.fullmatch(r"-?\d+", word) else word for word in words)


def allowed_words(look: TableFacts, column: "Column[Any]") -> list[Word]:
    """The words that an enum type, a CHECK or a domain allows; none if anything goes."""
    if isinstance(column.type, sa.Enum):
        return list(column.type.enums)
    for words in (*(words_of_check(check, column.name) for _, check in look.checks), words_of_domain(column)):
        if words:
            return [int(word) for word in words] if isinstance(column.type, sa.Integer) else list(words)
    return []


def words_of_domain(column: "Column[Any]") -> list[str]:
    """The words that the domains of a column allow; none if anything goes."""
    checks = [domain.check for domain in column.info.get(DOMAINS, ()) if domain.check is not None]
    return next((words for check in checks if (words := words_of_check(str(check), "VALUE"))), [])


def words_of_check(condition: str, column: str) -> list[str]:
    """The words of `status IN ('a', 'b')`, in either database's spelling; none for a condition of another kind."""
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
    """The word that new rows get."""
    default = column.server_default
    text = str(getattr(getattr(default, "arg", None), "text", None) or getattr(default, "arg", ""))
    literal = re.match(r"\s*'((?:[^']|'')*)'", text) or re.match(r"\s*(-?\d+)\s*$", text)
    if literal is None:
        return []
    return [int(literal[1])] if isinstance(column.type, sa.Integer) else [literal[1].replace("''", "'")]


def _indexed_words(look: TableFacts, column: "Column[Any]") -> list[Word]:
    """The words of conditions such as `WHERE status = 'pending'`, by which queues index the rows to be worked on."""
    if not isinstance(column.type, sa.String):
        return []
    found: list[Word] = []
    for condition in look.index_conditions(column.name):
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
    """Numbers mean what the column's comment says, or what is usual; the latter must be confirmed."""
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


def _complete(states: StateGuess, look: TableFacts) -> None:
    """Every state needs a word: where the table has none yet, one in its style."""
    known = [word for words in states.words.values() for word in words]
    numbers = [word for word in [*known, *states.seen] if isinstance(word, int)]
    for kind in NEEDED:
        if states.words.get(kind):
            continue
        new: Word
        if states.column is None or states.words.get(StateKind.READY) == ("ready",):
            new = str(kind)
        elif numbers or isinstance(look.table.columns[states.column].type, sa.Integer):
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
