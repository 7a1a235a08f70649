"""What becomes of an event whose handler failed.

No failure ends an event early: it is dead only with its attempts used up.
"""

from uuid import UUID

import rowmill as rm
from rowmill_systems.knowledge.errors import ModelDiffers

FREE = (rm.RateLimited, rm.errors.Limited, rm.errors.ProviderDown, rm.errors.ProviderRefused)
"""They say nothing of the event, and cost it no attempt: the engine waits as long as they say."""
MODEL_WAIT = 30.0


def aggregate_of(event: rm.outbox.Event) -> UUID:
    """Return the id of the document or the knowledge base. Raises PermanentError for an event that names none."""
    try:
        return UUID(str(event.aggregate_id))
    except ValueError:
        raise rm.PermanentError("aggregate_id is not the id of a document or a knowledge base", code="bad_id") from None


def outcome_of(error: Exception) -> rm.RetryLater:
    """Return the outcome of a failed attempt. It is logged if the event dies. Errors that are not of our making may
    quote what they choked on: of them, the name alone is kept."""
    if isinstance(error, ModelDiffers):
        return rm.RetryLater(MODEL_WAIT, error.code, str(error), count_attempt=False)
    if isinstance(error, rm.errors.WorkError):
        return rm.RetryLater(code=error.code, message=str(error))
    return rm.RetryLater(code=type(error).__name__)
