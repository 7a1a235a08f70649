"""The pages of knowledge: their navigation, and how they show states, errors and places."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from rowmill.web.site import NavLink, SignedIn, Site
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.consistency.kinds import Mending
from rowmill_systems.knowledge.web.explaining import explain
from rowmill_systems.knowledge.web.places import StorePlace, recorded_places

STATUS_TONES = {
    "pending": "info", "processing": "busy", "ready": "good", "failed": "bad", "deleting": "wait", "archived": "plain",
}  # fmt: skip
EVENT_TONES = {
    "pending": "info", "processing": "busy", "waiting": "wait", "processed": "good", "dead": "bad",
    "cancelled": "plain",
}  # fmt: skip
RUN_TONES = {"ok": "good", "incomplete": "busy", "failed": "bad", "abandoned": "bad"}
PLACE_TONES = {"here": "good", "coming": "info", "absent": "plain", "wrong": "bad", "unknown": "busy"}
STAGES = {"reading": "Reading", "embedding": "Embedding"}
EVENTS = {
    "document.process": "Process a document",
    "document.delete": "Delete a document",
    "document.reprocess": "Process a document again",
    "document.sweep": "Remove leftovers of a document",
    "kb.delete": "Delete a knowledge base",
    "kb.reembed": "Embed a knowledge base again",
}
MENDING = {
    Mending.EVENT: ("by itself", "good"),
    Mending.REQUEST: ("on request", "busy"),
    Mending.NONE: ("by hand", "bad"),
}
FOUND_BY = {"both": "meaning and words", "meaning": "meaning", "words": "words"}


def may(signed_in: SignedIn | None, role: str) -> bool:
    """Return whether somebody who is logged in has a role, or a higher one."""
    return signed_in is not None and signed_in.role.may(KnowledgeRole(role))


def words_of(name: str) -> str:
    """Return the name of a kind of finding as words."""
    return name.replace("_", " ").capitalize().replace(" kb", " knowledge base").replace("Kb ", "Knowledge base ")


def places(row: Mapping[str, Any]) -> list[StorePlace]:
    """Return where a document is by its row."""
    return recorded_places(row["status"], row["indexed_generation"], row["chunk_count"])


def highlighted(text: str, ranges: Sequence[tuple[int, int]]) -> Markup:
    """Return a text with the parts that were searched for marked. Ranges that overlap or lie outside are left out."""
    found, at = Markup(), 0
    for start, end in sorted(ranges):
        if at <= start < end <= len(text):
            found += escape(text[at:start]) + Markup("<mark>") + escape(text[start:end]) + Markup("</mark>")
            at = end
    return found + escape(text[at:])


def number_up_to(number: int, most: int) -> str:
    """Return a number that was counted up to a limit: "1,000+" beyond it."""
    return f"{most:,}+" if number > most else f"{number:,}"


def reason_of(payload: Any) -> str:
    """Return why an event was written, if it says so, whatever somebody wrote there."""
    found = payload.get("reason") if isinstance(payload, Mapping) else None
    return found if isinstance(found, str) else ""


def milliseconds(number: float) -> str:
    """Return a length of time: "340 ms", "2.4 s", "3 min"."""
    if number < 1000:
        return f"{number:.0f} ms"
    return f"{number / 1000:.1f} s" if number < 60_000 else f"{number / 60_000:,.0f} min"


site = Site(
    "Knowledge",
    __package__,
    pages=[
        NavLink("Knowledge bases", "/", within=["/bases", "/documents"]),
        NavLink("Search", "/search"),
        NavLink("Consistency", "/consistency", needs=KnowledgeRole.ADMINISTRATOR),
        NavLink("Outbox", "/outbox", needs=KnowledgeRole.ADMINISTRATOR),
        NavLink("People", "/people", needs=KnowledgeRole.ADMINISTRATOR),
        NavLink("API", "/docs"),
    ],
    login="/login",
    may=may,
    words_of=words_of,
    highlighted=highlighted,
    milliseconds=milliseconds,
    reason=reason_of,
    up_to=number_up_to,
    explain=explain,
    places=places,
    status_tone=lambda status: STATUS_TONES.get(status, "plain"),
    event_tone=lambda state: EVENT_TONES.get(state, "plain"),
    run_tone=lambda outcome: RUN_TONES.get(outcome, "busy"),
    place_tone=lambda state: PLACE_TONES[state],
    event_words=lambda name: EVENTS.get(name, name),
    stage_words=lambda stage: STAGES.get(stage, "Processing"),
    mending_words=lambda mending: MENDING[mending][0],
    mending_tone=lambda mending: MENDING[mending][1],
    found_by=lambda by: FOUND_BY.get(str(by), str(by)),
)
