"""Rules: what is a finding. Pure decisions over the facts of one item."""

from collections.abc import Callable
from datetime import datetime

from rowmill import reconcile
from rowmill_systems.knowledge.consistency import kinds
from rowmill_systems.knowledge.consistency.database import REEMBEDDING
from rowmill_systems.knowledge.consistency.items import Facts
from rowmill_systems.knowledge.events.sweeping import is_obsolete
from rowmill_systems.knowledge.models import DocumentStatus, KbStatus
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.database import in_utc

DATABASE, VECTORS, OBJECTS = "database", "vectors", "objects"
Points = list[tuple[str, int, str, int]]
"""Collection, generation, model, and how many."""

ModelInUse = Callable[[], tuple[str, int, datetime] | None]
"""Returns name and dimensions of the model that this process uses, and when it started; None if it can't be told."""


def rules(model_in_use: ModelInUse) -> list[reconcile.Rule]:
    """Return the rules, one for each kind of finding. A document has at most one of those that process it again."""
    missing, differs = reconcile.missing, reconcile.differs
    return [
        missing(kinds.READY_WITHOUT_VECTORS.name, present=DATABASE, absent=VECTORS, when=has_vectors),
        differs(kinds.WRONG_VECTOR_COUNT.name, present=(DATABASE, VECTORS), when=counts_differ),
        differs(kinds.WRONG_MODEL.name, present=(DATABASE, VECTORS), when=models_differ),
        alone(kinds.WRONG_PASSAGES, passages_differ),
        alone(kinds.STALE_PROCESSING, is_stuck_as(kinds.STALE_PROCESSING)),
        alone(kinds.DOCUMENT_STUCK, is_stuck_as(kinds.DOCUMENT_STUCK)),
        alone(kinds.KB_STUCK, is_stuck_as(kinds.KB_STUCK)),
        alone(kinds.KB_OTHER_MODEL, lambda kb: has_other_model(kb, model_in_use())),
        differs(kinds.WRONG_DIMENSIONS.name, present=(DATABASE, VECTORS), when=dimensions_differ),
        differs(kinds.LEFTOVER_VECTORS.name, present=(DATABASE, VECTORS), when=has_leftover_points),
        alone(kinds.LEFTOVER_PASSAGES, lambda row: bool(row.get("old_chunks"))),
        missing(kinds.LEFTOVER_OBJECT.name, present=OBJECTS, absent=DATABASE, when=is_known),
        differs(kinds.LEFTOVER_COLLECTION.name, present=(DATABASE, VECTORS), when=is_of_deleted_kb),
        missing(kinds.VECTORS_WITHOUT_DOCUMENT.name, present=VECTORS, absent=DATABASE, when=are_points),
        missing(kinds.OBJECT_WITHOUT_DOCUMENT.name, present=OBJECTS, absent=DATABASE, when=is_unknown),
        missing(kinds.COLLECTION_WITHOUT_KB.name, present=VECTORS, absent=DATABASE, when=is_collection),
        missing(kinds.READY_WITHOUT_OBJECT.name, present=DATABASE, absent=OBJECTS, when=is_object_of_shown),
    ]


def alone(kind: kinds.DriftKind, when: Callable[[Facts], bool]) -> reconcile.Rule:
    """Return a rule on rows alone. They are read in one statement each: nothing of them is in flight."""
    return reconcile.stale(kind.name, present=DATABASE, when=when)


def is_shown(row: Facts) -> bool:
    """Return whether search shows the document, and no run is about to replace what it shows. Collections that are
    being replaced lack points for a while."""
    at_rest = shows_index(row.get("status"), row.get("indexed"))
    return at_rest and row["kb"] == KbStatus.ACTIVE and row["deleted_at"] is None


def shows_index(status: object, indexed: object) -> bool:
    """Return whether search shows what was indexed of a document at rest. After a run that failed, it shows what an
    earlier one indexed."""
    return status == DocumentStatus.READY or (status == DocumentStatus.FAILED and indexed is not None)


def has_vectors(row: Facts) -> bool:
    return is_shown(row) and row["chunk_count"] != 0


def visible(row: Facts, store: Facts) -> Points:
    """Return the points that search shows."""
    collection = collection_of(row["kb_id"])
    return [point for point in store["points"] if point[0] == collection and point[1] == row["indexed"]]


def counts_differ(row: Facts, store: Facts) -> bool:
    return is_shown(row) and sum(count for *_, count in visible(row, store)) != row["chunk_count"]


def models_differ(row: Facts, store: Facts) -> bool:
    if not is_shown(row) or counts_differ(row, store):
        return False
    models = {row["model"], *(model for _, _, model, _ in visible(row, store))}
    return models != {row["kb_model"] or row["model"]}


def passages_differ(row: Facts) -> bool:
    if not is_shown(row) or row["chunk_count"] is None:
        return False
    return (row["chunks"], row["terms"]) != (row["chunk_count"], row["chunk_count"])


def is_stuck_as(kind: kinds.DriftKind) -> Callable[[Facts], bool]:
    return lambda row: row.get("stuck") == kind.name


def has_other_model(kb: Facts, model: tuple[str, int, datetime] | None) -> bool:
    """Return whether this process uses another model, and may choose it: it started after the present one was chosen.
    Otherwise the processes of an old and of a new deployment would embed everything in turns."""
    if model is None or kb.get("kb_model") is None or kb.get("kb_status") != KbStatus.ACTIVE or kb["reembedding"]:
        return False
    name, dimensions, started_at = model
    may_choose = kb["model_since"] is None or started_at > in_utc(kb["model_since"])
    return (kb["kb_model"], kb["kb_dimensions"]) != (name, dimensions) and may_choose


def dimensions_differ(kb: Facts, collection: Facts) -> bool:
    if "dimensions" not in collection or kb["kb_status"] != KbStatus.ACTIVE or kb["reembedding"]:
        return False
    return kb["kb_dimensions"] is not None and kb["kb_dimensions"] != collection["dimensions"]


def has_leftover_points(row: Facts, store: Facts) -> bool:
    if (
        "points" not in store
        or row["status"] == DocumentStatus.DELETING
        or row["kb"] in (KbStatus.DELETING, REEMBEDDING)
    ):
        return False
    points = ((collection, generation) for collection, generation, _, _ in store["points"])
    return any(is_obsolete(row["status"], row["kb_id"], row["generation"], row["indexed"], *each) for each in points)


def is_known(stored: Facts) -> bool:
    """Return whether the document of the object has a row. The second look tells; until then it may be so."""
    return bool(stored.get("known", True)) and not stored.get("uploading")


def is_unknown(stored: Facts) -> bool:
    return not stored.get("known") and not stored.get("uploading")


def is_of_deleted_kb(kb: Facts, collection: Facts) -> bool:
    return "dimensions" in collection and kb["kb_status"] == KbStatus.ARCHIVED


def are_points(store: Facts) -> bool:
    return "points" in store


def is_collection(store: Facts) -> bool:
    return "dimensions" in store


def is_object_of_shown(row: Facts) -> bool:
    return shows_index(row.get("object_of"), row.get("indexed"))
