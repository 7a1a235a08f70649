"""Which article an entry is, where its guid can't be trusted: it changes, or goes to another article."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from rowmill_systems.articles.feeds.entries import FeedEntry
from rowmill_systems.articles.feeds.parsing import identity_of
from rowmill_systems.articles.identity import by_link, stored_identity, text_hash
from rowmill_systems.articles.models import Content
from rowmill_systems.parts.values import storable

AT_ONCE = 500
"""Entries per statement."""


@dataclass(frozen=True, slots=True)
class StoredForm:
    """What the table would have of an entry."""

    identity: str
    url: str | None
    title: str
    text_hash: str

    @classmethod
    def of(cls, entry: FeedEntry) -> "StoredForm":
        title = storable(entry.title)
        return cls(
            stored_identity(storable(entry.identity)),
            None if entry.url is None else storable(entry.url),
            title,
            text_hash(title, storable(entry.text)),
        )

    @property
    def look(self) -> tuple[str | None, str]:
        """Link, title and text: what makes an article look the same."""
        return self.url, self.text_hash


def with_known_identities(
    connection: sa.Connection, source_id: uuid.UUID, entries: Sequence[FeedEntry]
) -> list[FeedEntry]:
    """Return entries with the identities under which the table has them. Two statements per 500 entries.

    An entry whose identity is unknown, and that looks like an article of the same source in link, title and text, is
    that article: some servers make a new guid for each response. Both must be the only ones that look so: a notice
    with the same words each day is another one each day.

    An entry whose identity belongs to an article with another link and another title is not that article, and is
    identified by its link or a hash: some servers give one guid to one article after the other. If only one of the two
    differs, the article was edited or has moved, and is updated.

    What nobody can tell: an article that is edited while its guid changes is a new one, and so is one that gets
    another link and another title at once.
    """
    forms = [StoredForm.of(entry) for entry in entries]
    rows = {row.identity: row for row in _by_identity(connection, source_id, [form.identity for form in forms])}
    unsure = [place for place, form in enumerate(forms) if not _is_same(rows.get(form.identity), form)]
    if not unsure:
        return list(entries)
    looks = Counter(form.look for form in forms)
    known = _known_looks(connection, source_id, [forms[place] for place in unsure if looks[forms[place].look] == 1])
    identities: list[str | None] = [form.identity for form in forms]
    open_places = set(unsure)
    taken = {form.identity for place, form in enumerate(forms) if place not in open_places}
    # Those with an unknown identity first: it is their own, and none of the others may fall back to it.
    for place in sorted(unsure, key=lambda place: forms[place].identity in rows):
        form = forms[place]
        own = _other_identities(entries[place]) if form.identity in rows else [form.identity]
        choices = [*([known[form.look]] if form.look in known else []), *own]
        identity = identities[place] = next((choice for choice in choices if choice not in taken), None)
        if identity is not None:
            taken.add(identity)
    return [
        entry if identity == form.identity else replace(entry, identity=identity)
        for entry, form, identity in zip(entries, forms, identities, strict=True)
        if identity is not None  # otherwise it has the title and text of another
    ]


def _is_same(row: Any, form: StoredForm) -> bool:
    """Return whether the article with an entry's identity is that entry."""
    return row is not None and (row.url == form.url or row.title == form.title)


def _other_identities(entry: FeedEntry) -> Iterator[str]:
    if entry.url:
        yield stored_identity(storable(identity_of("", entry.url, "", "")))
    yield identity_of("", None, entry.title, entry.text)


def _known_looks(
    connection: sa.Connection, source_id: uuid.UUID, forms: Sequence[StoredForm]
) -> dict[tuple[str | None, str], str]:
    """Return the identities of articles, by how they look, where one alone looks so. For the looks of these forms."""
    found: dict[tuple[str | None, str], list[str]] = {form.look: [] for form in forms}
    for row in _by_text(connection, source_id, list({form.text_hash for form in forms})):
        if (row.url, row.text_hash) in found:
            found[row.url, row.text_hash].append(row.identity)
    # Articles that were there before articles was get the identity that the feed gives: `saving` finds them by link.
    return {
        (url, text): only[0]
        for (url, text), only in found.items()
        if len(only) == 1 and not (url and only[0] == by_link(url))
    }


# served by: uq_contents_identity
def _by_identity(connection: sa.Connection, source_id: uuid.UUID, identities: Sequence[str]) -> Iterator[Any]:
    columns = sa.select(Content.identity, Content.url, Content.title).where(Content.source_id == source_id)
    for start in range(0, len(identities), AT_ONCE):
        yield from connection.execute(columns.where(Content.identity.in_(identities[start : start + AT_ONCE])))


# served by: ix_contents_text
def _by_text(connection: sa.Connection, source_id: uuid.UUID, hashes: Sequence[str]) -> Iterator[Any]:
    columns = sa.select(Content.identity, Content.url, Content.text_hash).where(Content.source_id == source_id)
    for start in range(0, len(hashes), AT_ONCE):
        yield from connection.execute(columns.where(Content.text_hash.in_(hashes[start : start + AT_ONCE])))
