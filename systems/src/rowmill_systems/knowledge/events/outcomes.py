"""What becomes of an event whose handler failed.

No failure ends an event early: it is dead only with its attempts used up. Failures that say nothing of the event use up
none: otherwise a worker with wrong settings would end all events, one after another.
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

import rowmill as rm
from rowmill_systems.knowledge.errors import ModelDiffers, WrongSettings
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.parts.embeddings.weights import ModelMissing
from rowmill_systems.parts.objects.errors import ForbiddenObject
from rowmill_systems.parts.vectors.errors import VectorsRefused

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

FREE = (rm.RateLimited, rm.errors.Limited, rm.errors.ProviderDown, rm.errors.ProviderRefused)
"""They say nothing of the event, and cost it no attempt: the engine waits as long as they say."""
MODEL_WAIT = 30.0
SETTINGS_WAIT = 60.0


def aggregate_of(event: rm.outbox.Event) -> UUID:
    """Return the id of the document or the knowledge base. Raises PermanentError for an event that names none."""
    try:
        return UUID(str(event.aggregate_id))
    except ValueError:
        raise rm.PermanentError("aggregate_id is not the id of a document or a knowledge base", code="bad_id") from None


def outcome_of(error: Exception) -> rm.RetryLater:
    """Return the outcome of a failed attempt. It is logged if the event dies. Errors that are not of our making may
    quote what they choked on: of them, the name alone is kept."""
    match error:
        case ModelDiffers():
            return rm.RetryLater(MODEL_WAIT, error.code, str(error), count_attempt=False)
        case WrongSettings():
            return rm.RetryLater(SETTINGS_WAIT, error.code, str(error), count_attempt=False)
        case rm.errors.WorkError():
            return rm.RetryLater(code=error.code, message=str(error))
    return rm.RetryLater(code=type(error).__name__)


async def detect_wrong_settings(knowledge: "Knowledge", error: Exception) -> Exception:
    """Return WrongSettings in place of an error that only a person can end. It is logged once, until an event succeeds.
    Return the error itself otherwise."""
    problem = await problem_of_settings(knowledge, error)
    if problem is None:
        return error
    if problem not in knowledge.logged_problems:
        knowledge.logged_problems.add(problem)
        log_event("settings.wrong", level=logging.WARNING, problem=problem)
    return WrongSettings(problem)


async def problem_of_settings(knowledge: "Knowledge", error: Exception) -> str | None:
    """Return what is wrong with the settings, in words of ours, if the error says that."""
    match error:
        case rm.errors.DeclarationError() | VectorsRefused() | ModelMissing():
            return str(error)
        case ForbiddenObject() if await refuses_everything(knowledge):
            return str(error)
        case ImportError():
            return f"{error.name} is not installed, or is broken"
    return None


async def refuses_everything(knowledge: "Knowledge") -> bool:
    """Return whether the storage refuses to list what it has, too. Otherwise it is about one object."""
    with suppress(Exception):
        try:
            await anext(aiter(knowledge.storage.keys()), None)
        except ForbiddenObject:
            return True
    return False
