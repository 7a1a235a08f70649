"""Words of a queue that an enum type or a CHECK does not take yet."""

from collections.abc import Callable, Iterator

import sqlalchemy as sa

from rowmill.model.words import Word
from rowmill.store.adopt.change import Change, Part, Plan
from rowmill.store.adopt.guess import allowed_words, words_of_check
from rowmill.store.adopt.look import Look
from rowmill.store.terms import Terms


def word_text(terms: Terms, word: Word) -> str:
    """A word as the database has it, whatever it is in Python: its literal without the quotes."""
    literal = terms.word(word)
    return literal[1:-1].replace("''", "'") if literal.startswith("'") else literal


def texts_of(terms: Terms) -> list[str]:
    """Every word of the queue, as the database has it."""
    return list(dict.fromkeys(word_text(terms, word) for word, _ in terms.queue.vocabulary.meanings()))


def allow_words(plan: Plan, terms: Terms, look: Look, postgres: bool) -> Iterator[Change]:
    """Words of the queue that an enum type or a CHECK does not take yet."""
    state = look.table.columns.get(terms.queue.columns["state"].name)
    if state is None:
        return
    allowed = [str(word) for word in allowed_words(look, state)]
    words = texts_of(terms)
    quote: Callable[[str], str] = str if isinstance(state.type, sa.Integer) else terms.text
    lacking = [quote(word) for word in words if word not in allowed]
    if not allowed or not lacking:
        return
    listed = ", ".join(lacking)
    if isinstance(state.type, sa.Enum) and postgres:
        kind = terms.preparer.format_type(state.type)  # type: ignore[attr-defined]
        yield Change(
            Part.WORD,
            f"type {kind} does not have {listed}",
            tuple(f"ALTER TYPE {kind} ADD VALUE IF NOT EXISTS {literal}" for literal in lacking),
            alone=True,
        )
        return
    name, condition = next(check for check in look.checks if words_of_check(check[1], state.name))
    if not postgres or name is None:
        plan.obstacles.append(
            f"a CHECK of table {look.table.name} does not allow {listed}, and SQLite can't change it: rebuild the "
            "table (Alembic's batch_alter_table does), or use words that it allows"
        )
        return
    quoted = terms.quote(name)
    everything = f"{terms.state} IN ({', '.join(map(quote, dict.fromkeys([*allowed, *words])))})"
    yield Change(
        Part.WORD,
        f"constraint {name} does not allow {listed}",
        (
            f"ALTER TABLE {terms.table} DROP CONSTRAINT {quoted}, "
            f"ADD CONSTRAINT {quoted} CHECK ({everything}) NOT VALID",
            f"ALTER TABLE {terms.table} VALIDATE CONSTRAINT {quoted}",
        ),
        (f"ALTER TABLE {terms.table} DROP CONSTRAINT {quoted}, ADD CONSTRAINT {quoted} CHECK ({condition}) NOT VALID",),
    )
