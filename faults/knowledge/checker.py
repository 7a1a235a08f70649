"""The verdict on a run: a pure function of what was said and what the stores have.

1  Every acknowledged upload that nobody asked to delete is ready, whole, and found by words and by meaning.
2  Every acknowledged deletion is done: archived, and nothing is left of it in any store.
3  No store has anything that no row explains: no orphans, no other generation, no collection of a knowledge base
   that is gone.
4  Search shows one generation after the other: none is shown twice, none goes back, and nothing comes back from a
   deletion.
5  The events of a document are handled one after the other, and each is processed once.
6  What was marked ready was whole, and what was marked deleted was gone, at that moment.
7  Everything is final: no event, no upload and no knowledge base is under way, and none was given up.
8  `retry_count` is at most what its event failed, and 0 if it never did.
9  A comparison of the stores, after one that mended, finds nothing.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from faults.knowledge.facts import DocumentFacts, Facts
from faults.knowledge.ledger import WRITTEN, Deed, Said

TICK = 0.02
"""Seconds by which clocks of one machine may differ."""
FINAL_STATUSES = ("ready", "archived")
PROCESSED = "processed"
OPEN_UPLOADS = ("open", "removing", "failed")


@dataclass(frozen=True, slots=True)
class KnowledgeViolation:
    rule: int
    about: str
    what: str

    def __str__(self) -> str:
        return f"rule {self.rule}, {self.about}: {self.what}"


def judge(facts: Facts) -> list[KnowledgeViolation]:
    """Return all violations."""
    wishes = Wishes.of(facts)
    checks = (
        uploads_are_there(facts, wishes),
        deletions_are_done(facts, wishes),
        nothing_is_left(facts),
        generations_are_in_order(facts),
        events_are_in_order(facts),
        marks_were_true(facts),
        collections_stay_dropped(facts),
        everything_is_final(facts),
        retries_are_counted(facts),
        comparison_finds_nothing(facts),
    )
    return [KnowledgeViolation(*found) for check in checks for found in check]


Found = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What clients asked for, and what was acknowledged."""

    uploaded: dict[UUID, Said]
    """Acknowledged."""
    unwanted: frozenset[UUID]
    """Documents whose deletion, or that of their knowledge base, somebody asked for, acknowledged or not."""
    deleted: frozenset[UUID]
    """Documents whose deletion, or that of their knowledge base, was acknowledged."""
    deleted_kbs: frozenset[UUID]

    @classmethod
    def of(cls, facts: Facts) -> "Wishes":
        asked: dict[bool, set[UUID]] = {True: set(), False: set()}
        kbs: dict[bool, set[UUID]] = {True: set(), False: set()}
        uploaded = {}
        for said in facts.said:
            if said.deed is Deed.DELETE:
                asked[said.ended].add(UUID(said.document))
            elif said.deed is Deed.DELETE_KB:
                kbs[said.ended].add(UUID(said.kb))
            elif said.deed is Deed.UPLOAD and said.ended:
                uploaded[UUID(said.document)] = said

        def in_kbs(ended: bool) -> set[UUID]:
            rows = {document.id for document in facts.documents.values() if document.kb in kbs[ended]}
            return rows | {document for document, said in uploaded.items() if UUID(said.kb) in kbs[ended]}

        deleted = asked[True] | in_kbs(True)
        return cls(uploaded, frozenset(asked[False] | in_kbs(False)), frozenset(deleted), frozenset(kbs[True]))


def uploads_are_there(facts: Facts, wishes: Wishes) -> Iterator[Found]:
    for document_id, said in wishes.uploaded.items():
        document = facts.documents.get(document_id)
        if document is None:
            yield 1, f"document {document_id}", "was acknowledged, and has no row"
        elif document_id not in wishes.unwanted and document.status != "ready":
            yield 1, f"document {document_id}", f"was acknowledged, and is {document.status}"
        elif document.status == "ready" and said.word in facts.found:
            by = facts.found[said.word].get(document_id, "nothing")
            if by != "both":
                yield 1, f"document {document_id}", f"is found by {by}, and not by words and meaning"
    for document in facts.documents.values():
        if document.status == "ready":
            yield from ((1, f"document {document.id}", what) for what in lacking(facts, document))


def lacking(facts: Facts, document: DocumentFacts) -> Iterator[str]:
    """Yield what is wrong with a ready document in each store."""
    indexed, wanted = document.indexed, document.chunk_count
    if indexed is None or not wanted:
        yield "is ready, and has no generation that search shows"
        return
    place = document.id, indexed
    for what, number in (
        ("passages", facts.chunks.get(place, 0)),
        ("entries in the full text", facts.terms.get(place, 0)),
        ("points", facts.points.get((document.kb, *place), 0)),
    ):
        if number != wanted:
            yield f"is ready, and has {number} {what} of {wanted}"
    if not facts.objects.get(document.object_key, False):
        yield "is ready, and its bytes are gone or damaged"


def deletions_are_done(facts: Facts, wishes: Wishes) -> Iterator[Found]:
    for document_id in wishes.deleted:
        document = facts.documents.get(document_id)
        if document is not None and (document.status != "archived" or not document.is_marked_deleted):
            yield 2, f"document {document_id}", f"was deleted, and is {document.status}"
    for kb_id in wishes.deleted_kbs:
        if facts.kbs.get(kb_id) != "archived":
            yield 2, f"knowledge base {kb_id}", f"was deleted, and is {facts.kbs.get(kb_id)}"
    gone = {document.object_key for document in facts.documents.values() if document.id in wishes.deleted}
    yield from ((2, f"object {key}", "belongs to a deleted document") for key in sorted(gone & facts.objects.keys()))
    for document_id in {document for _, document, _ in facts.points} & wishes.deleted:
        yield 2, f"document {document_id}", "was deleted, and has points"
    for document_id in {document for hits in facts.found.values() for document in hits} & wishes.deleted:
        yield 2, f"document {document_id}", "was deleted, and is found"


def nothing_is_left(facts: Facts) -> Iterator[Found]:
    documents = facts.documents
    for kb_id, document_id, generation in facts.points:
        document = documents.get(document_id)
        if document is None or document.status != "ready" or (kb_id, generation) != (document.kb, document.indexed):
            yield 3, f"document {document_id}", f"has points of generation {generation} that search does not show"
    for name, places in (("passages", facts.chunks), ("entries in the full text", facts.terms)):
        for document_id, generation in places:
            document = documents.get(document_id)
            if document is None or document.status != "ready" or generation != document.indexed:
                yield 3, f"document {document_id}", f"has {name} of generation {generation} that search does not show"
    named = {document.object_key for document in documents.values() if document.status == "ready"}
    yield from ((3, f"object {key}", "belongs to no document") for key in sorted(facts.objects.keys() - named))
    active = {kb_id for kb_id, status in facts.kbs.items() if status == "active"}
    yield from ((3, f"knowledge base {kb_id}", "is gone, and has a collection") for kb_id in facts.collections - active)


def generations_are_in_order(facts: Facts) -> Iterator[Found]:
    shown: set[tuple[UUID, int | None]] = set()
    for turn in facts.turns:
        about = f"document {turn.document}"
        if turn.generation < turn.old_generation:
            yield 4, about, f"went from generation {turn.old_generation} to {turn.generation}"
        if turn.old_status == "archived" or (turn.old_status == "deleting" and turn.status == "ready"):
            yield 4, about, f"was {turn.old_status}, and became {turn.status}"
        if turn.status == "ready" and turn.old_status != "ready":
            if turn.indexed != turn.old_generation:
                yield 4, about, f"shows generation {turn.indexed}, though the latest was {turn.old_generation}"
            if (turn.document, turn.indexed) in shown:
                yield 4, about, f"began twice to show generation {turn.indexed}"
            shown.add((turn.document, turn.indexed))
        if turn.indexed is not None and turn.old_indexed is not None and turn.indexed < turn.old_indexed:
            yield 4, about, f"showed generation {turn.old_indexed}, and then {turn.indexed}"


def events_are_in_order(facts: Facts) -> Iterator[Found]:
    """No two events of a document are handled at the same time, except by a worker that has lost its lease."""
    released: defaultdict[int, list[float]] = defaultdict(list)
    done: set[int] = set()
    for turn in facts.event_turns:
        if turn.old_state == "processing":
            released[turn.event].append(turn.at)
        if turn.state == PROCESSED:
            if turn.event in done:
                yield 5, f"event {turn.event}", "was processed twice"
            done.add(turn.event)
    latest: dict[str, tuple[int, float]] = {}
    for said in facts.said:
        if said.deed is Deed.HANDLE and not said.ended:
            event, until = latest.get(said.document, (said.event, 0.0))
            if event != said.event and until > said.at + TICK:
                yield 5, f"event {said.event}", f"was handled while event {event} of the same aggregate was"
            until = min((at for at in released[said.event] if at > said.at), default=said.at)
            latest[said.document] = said.event, until


def marks_were_true(facts: Facts) -> Iterator[Found]:
    """Report what the auditor found. What a worker wrote after the mark, which it had begun before, explains points and
    collections: they are leftovers, and never shown."""
    late: defaultdict[str, float] = defaultdict(float)
    begun: dict[str, str] = {}
    for said in facts.said:
        if said.deed in (Deed.PUT, Deed.MAKE_COLLECTION):
            if not said.ended:
                begun[said.number] = said.document if said.deed is Deed.PUT else said.kb
            elif said.number in begun:
                about = begun.pop(said.number)
                late[about] = max(late[about], said.at)
    late |= dict.fromkeys(begun.values(), float("inf"))  # killed, and nobody knows when
    marked = {str(turn.document): turn.at for turn in facts.turns if turn.status == "archived"}
    for said in facts.said:
        if said.deed is Deed.FOUND:
            about = said.document or said.kb
            if said.may_be_late and late[about] > marked.get(about, said.at) - TICK:
                continue
            yield 6, f"document {said.document}" if said.document else f"knowledge base {said.kb}", said.what


def collections_stay_dropped(facts: Facts) -> Iterator[Found]:
    """Report points that were written into the collection of a deleted knowledge base, unless a run that began before
    has made it again: that one drops it when it finds out."""
    deletions = {event.id for event in facts.events.values() if event.type == "kb.delete"}
    dropped = {
        turn.aggregate: turn.at for turn in facts.event_turns if turn.event in deletions and turn.state == PROCESSED
    }
    begun: set[str] = set()
    made: set[str] = set()
    for said in facts.said:
        if said.kb in dropped and said.at > dropped[said.kb] + TICK:
            if said.deed is Deed.MAKE_COLLECTION:
                made.add(said.kb)
            elif said.deed is Deed.PUT and not said.ended:
                begun.add(said.number)
            elif said.deed is Deed.PUT and said.number in begun and said.what == WRITTEN and said.kb not in made:
                yield 6, f"knowledge base {said.kb}", "was deleted, and points were written into its collection"


def everything_is_final(facts: Facts) -> Iterator[Found]:
    for event in facts.events.values():
        if event.state != PROCESSED or not event.is_processed:
            yield 7, f"event {event.id} ({event.type})", f"is {event.state} after {event.attempts} failures"
    for document in facts.documents.values():
        if document.status not in FINAL_STATUSES:
            yield 7, f"document {document.id}", f"is {document.status}"
    yield from ((7, f"knowledge base {kb}", "is being deleted") for kb, how in facts.kbs.items() if how == "deleting")
    for state in OPEN_UPLOADS:
        if number := facts.uploads.get(state):
            yield 7, "uploads", f"{number} are {state}"


def retries_are_counted(facts: Facts) -> Iterator[Found]:
    for document in facts.documents.values():
        event = facts.events.get(document.event or 0)
        if document.status == "ready" and event is not None and document.retry_count > event.attempts:
            yield 8, f"document {document.id}", f"counts {document.retry_count} failures of {event.attempts}"


def comparison_finds_nothing(facts: Facts) -> Iterator[Found]:
    if facts.left:
        yield 9, "the comparison", f"finds {facts.left} after one that mended"
