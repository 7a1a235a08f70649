"""The values of `enrichment_status`, in groups."""

PENDING = "PENDING"
READY = (PENDING, "LINKED", "ENRICHED")
"""They wait for a worker."""
OPEN = (*READY, "LINK_FAILED", "ENRICH_FAILED")
"""They wait for a worker, for a time, or for a service."""
IN_PROGRESS = ("LINKING", "ENRICHING", "SAVING")
COMPLETE = "COMPLETE"
FAILED = "FAILED"
STATUSES = (
    PENDING, "LINKING", "LINK_FAILED", "LINKED", "ENRICHING", "ENRICH_FAILED", "ENRICHED", "SAVING", COMPLETE, FAILED,
)  # fmt: skip
