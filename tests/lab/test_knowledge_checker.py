"""The checker of knowledge bases passes a good run, and names the rule and the document that somebody spoilt."""

from dataclasses import replace
from uuid import UUID

import pytest

from faults.knowledge.checker import judge
from faults.knowledge.facts import DocumentFacts, EventFacts, Facts
from faults.knowledge.ledger import WRITTEN, Deed, Said
from faults.knowledge.witness import EventTurn, Turn

KB, GONE_KB = UUID(int=1), UUID(int=2)
READY, GONE = UUID(int=3), UUID(int=4)
KEY, GONE_KEY = f"kb-{KB}/{READY}/aa", f"kb-{KB}/{GONE}/bb"


def good() -> Facts:
    """Return a run in which one document was uploaded, and another one uploaded and deleted, with a knowledge base."""
    said = [
        Said(Deed.UPLOAD, False, "1", 1.0, kb=str(KB), word="zqword"),
        Said(Deed.UPLOAD, True, "1", 1.1, kb=str(KB), document=str(READY), word="zqword"),
        Said(Deed.UPLOAD, False, "2", 1.2, kb=str(KB), word="zqgone"),
        Said(Deed.UPLOAD, True, "2", 1.3, kb=str(KB), document=str(GONE), word="zqgone"),
        Said(Deed.HANDLE, False, "h1", 1.5, document=str(READY), event=1),
        Said(Deed.HANDLE, True, "h1", 1.9),
        Said(Deed.DELETE, False, "3", 2.0, document=str(GONE)),
        Said(Deed.DELETE, True, "3", 2.1, document=str(GONE)),
        Said(Deed.DELETE_KB, False, "4", 2.2, kb=str(GONE_KB)),
        Said(Deed.DELETE_KB, True, "4", 2.3, kb=str(GONE_KB)),
    ]
    return Facts(
        said=said,
        kbs={KB: "active", GONE_KB: "archived"},
        documents={
            READY: DocumentFacts(READY, KB, "ready", 1, 1, 2, KEY, 0, 1, False),
            GONE: DocumentFacts(GONE, KB, "archived", 2, None, None, GONE_KEY, 0, 2, True),
        },
        events={
            1: EventFacts(1, "document.process", "processed", 0, True),
            2: EventFacts(2, "document.delete", "processed", 0, True),
        },
        chunks={(READY, 1): 2},
        terms={(READY, 1): 2},
        points={(KB, READY, 1): 2},
        collections=frozenset({KB}),
        objects={KEY: True},
        uploads={"removed": 3},
        turns=[
            Turn(1, 1.4, READY, "pending", "processing", 0, 1, None, None),
            Turn(2, 1.8, READY, "processing", "ready", 1, 1, None, 1),
            Turn(3, 2.05, GONE, "pending", "deleting", 0, 1, None, None),
            Turn(4, 2.5, GONE, "deleting", "archived", 1, 1, None, None),
        ],
        event_turns=[
            EventTurn(1, 1.4, 1, str(READY), "pending", "processing"),
            EventTurn(2, 1.9, 1, str(READY), "processing", "processed"),
        ],
        found={"zqword": {READY: "both"}, "zqgone": {}},
    )


def rules(facts: Facts) -> set[int]:
    return {violation.rule for violation in judge(facts)}


def row(facts: Facts, document: UUID, **fields: object) -> Facts:
    changed = replace(facts.documents[document], **fields)  # type: ignore[arg-type]
    return replace(facts, documents={**facts.documents, document: changed})


def heard(facts: Facts, *said: Said) -> Facts:
    return replace(facts, said=sorted([*facts.said, *said], key=lambda each: each.at))


def test_a_good_run_passes() -> None:
    assert judge(good()) == []


def test_an_upload_that_was_never_acknowledged_may_be_there_or_not() -> None:
    facts = good()
    facts.said = [said for said in facts.said if said.number != "1" or not said.ended]
    assert judge(facts) == []
    assert (
        judge(replace(facts, documents={GONE: facts.documents[GONE]}, chunks={}, terms={}, points={}, objects={})) == []
    )


def test_a_deletion_that_was_never_acknowledged_may_be_done_or_not() -> None:
    facts = heard(good(), Said(Deed.DELETE, False, "5", 3.0, document=str(READY)))
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("spoilt", "broken"),
    [
        (replace(good(), documents={GONE: good().documents[GONE]}), {1, 3}),
        (row(good(), READY, status="failed"), {1, 3, 7}),
        (replace(good(), points={(KB, READY, 1): 1}), {1}),
        (replace(good(), chunks={(READY, 1): 1}), {1}),
        (replace(good(), terms={}), {1}),
        (replace(good(), objects={KEY: False}), {1}),
        (replace(good(), found={"zqword": {READY: "words"}}), {1}),
        (replace(good(), found={"zqword": {}}), {1}),
        (row(good(), GONE, status="deleting"), {2, 7}),
        (row(good(), GONE, is_marked_deleted=False), {2}),
        (replace(good(), objects={KEY: True, GONE_KEY: True}), {2, 3}),
        (replace(good(), found={"zqgone": {GONE: "words"}}), {2}),
        (replace(good(), kbs={KB: "active", GONE_KB: "deleting"}), {2, 7}),
        (replace(good(), points={(KB, READY, 1): 2, (KB, GONE, 1): 1}), {2, 3}),
        (replace(good(), points={(KB, READY, 1): 2, (KB, READY, 2): 1}), {3}),
        (replace(good(), points={(KB, READY, 1): 2, (KB, UUID(int=9), 1): 1}), {3}),
        (replace(good(), chunks={(READY, 1): 2, (READY, 2): 1}), {3}),
        (replace(good(), objects={KEY: True, f"kb-{KB}/{UUID(int=9)}/cc": True}), {3}),
        (replace(good(), collections=frozenset({KB, GONE_KB})), {3}),
        (replace(good(), uploads={"open": 1}), {7}),
        (row(good(), READY, retry_count=1), {8}),
        (replace(good(), left=1), {9}),
    ],
)
def test_what_is_wrong_in_the_end(spoilt: Facts, broken: set[int]) -> None:
    assert rules(spoilt) == broken


def test_an_event_that_is_dead() -> None:
    facts = good()
    dead = EventFacts(2, "document.delete", "dead", 40, False)
    assert rules(replace(facts, events={**facts.events, 2: dead})) == {7}


@pytest.mark.parametrize(
    "turn",
    [
        Turn(9, 3.0, READY, "processing", "ready", 1, 1, None, 1),  # twice
        Turn(9, 3.0, READY, "processing", "ready", 3, 3, 1, 2),  # not the latest
        Turn(9, 3.0, READY, "ready", "ready", 2, 1, 1, 1),
        Turn(9, 3.0, READY, "ready", "ready", 2, 2, 2, 1),
        Turn(9, 3.0, GONE, "archived", "processing", 1, 2, None, None),
        Turn(9, 3.0, GONE, "deleting", "ready", 1, 1, None, 1),
    ],
)
def test_a_generation_that_must_not_be_shown(turn: Turn) -> None:
    facts = good()
    assert rules(replace(facts, turns=[*facts.turns, turn])) == {4}


def test_an_event_that_was_processed_twice() -> None:
    facts = good()
    again = EventTurn(3, 2.0, 1, str(READY), "processing", "processed")
    assert rules(replace(facts, event_turns=[*facts.event_turns, again])) == {5}


def test_two_events_of_a_document_at_once() -> None:
    facts = heard(good(), Said(Deed.HANDLE, False, "h2", 1.7, document=str(READY), event=7))
    assert rules(facts) == {5}


def test_a_worker_that_has_lost_its_lease_may_still_be_at_work() -> None:
    facts = heard(good(), Said(Deed.HANDLE, False, "h2", 1.7, document=str(READY), event=7))
    facts.event_turns = [EventTurn(1, 1.6, 1, str(READY), "processing", "pending")]
    assert judge(facts) == []


def test_a_mark_that_was_not_true() -> None:
    mark = Said(Deed.FOUND, False, "a", 2.6, document=str(GONE), what="was marked deleted with its bytes")
    assert rules(heard(good(), mark)) == {6}


def test_points_that_a_late_write_explains() -> None:
    begun = Said(Deed.PUT, False, "p", 1.0, document=str(GONE))
    mark = Said(Deed.FOUND, False, "a", 2.6, document=str(GONE), what="with points", may_be_late=True)
    assert judge(heard(good(), begun, mark)) == []
    assert judge(heard(good(), begun, Said(Deed.PUT, True, "p", 2.55), mark)) == []
    assert rules(heard(good(), begun, Said(Deed.PUT, True, "p", 1.1), mark)) == {6}


def test_points_that_bring_back_a_dropped_collection() -> None:
    facts = good()
    facts.events = {**facts.events, 3: EventFacts(3, "kb.delete", "processed", 0, True)}
    facts.event_turns = [*facts.event_turns, EventTurn(9, 3.0, 3, str(GONE_KB), "processing", "processed")]
    begun = Said(Deed.PUT, False, "p", 3.1, document=str(GONE), kb=str(GONE_KB))
    written = replace(begun, ended=True, at=3.2, what=WRITTEN)
    assert rules(heard(facts, begun, written)) == {6}
    assert judge(heard(facts, begun, replace(written, what="failed"))) == []
    assert judge(heard(facts, Said(Deed.MAKE_COLLECTION, False, "m", 3.05, kb=str(GONE_KB)), begun, written)) == []
