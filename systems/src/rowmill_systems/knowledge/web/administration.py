"""The outbox and the users, for administrators."""

import uuid
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Response

import rowmill as rm
from rowmill.web.problems import problems
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.users import (
    change_account,
    create_account,
    delete_account,
    find_account,
    list_accounts,
    set_password,
)
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import After, GivenKnowledge, Limit, logged_in_by_password, with_role
from rowmill_systems.knowledge.web.reads import event_page, one_event

LARGEST_ID = 2**63 - 1
MOST_REQUEUED = 10_000
EventState = Literal["pending", "processing", "waiting", "processed", "dead", "cancelled"]
ForAdministrators = Depends(with_role(KnowledgeRole.ADMINISTRATOR))
NOT_THEM = problems(s403="not an administrator, or a page of another site asks")
NO_USER = problems(s404="no such user")
BY_PASSWORD = Depends(logged_in_by_password)
"""With a token of an administrator's program, one could make oneself an administrator."""
router = APIRouter(prefix="/api/v1/admin", dependencies=[ForAdministrators], responses=NOT_THEM)


@router.get("/outbox/stats", tags=["outbox"])
async def outbox_stats(knowledge: GivenKnowledge) -> schemas.OutboxStatsOut:
    """Return how the outbox stands."""
    return schemas.OutboxStatsOut.model_validate(await knowledge.outbox.stats())


@router.get("/outbox", tags=["outbox"])
async def list_events(
    knowledge: GivenKnowledge,
    state: EventState | None = None,
    event_type: Annotated[str, Query(max_length=100), schemas.Fit] = "",
    aggregate_id: Annotated[uuid.UUID | None, Query(description="A document, or a knowledge base.")] = None,
    after: After = "",
    limit: Limit = 50,
) -> schemas.OutboxEventList:
    """List events, the latest first. A page may have few of them, and yet a `next`."""

    def read(connection: sa.Connection) -> schemas.OutboxEventList:
        page = event_page(
            connection,
            state=state or "",
            event_type=event_type,
            aggregate="" if aggregate_id is None else str(aggregate_id),
            after=after,
            limit=limit,
        )
        found = [schemas.OutboxEventOut.model_validate(dict(row)) for row in page.rows]
        return schemas.OutboxEventList(events=found, next=page.next)

    return await knowledge.mill.run(read, write=False)


def outbox_queue(knowledge: Knowledge) -> rm.Queue[Any]:
    return knowledge.mill[knowledge.outbox.queue.name]


@router.post("/outbox/requeue", tags=["outbox"])
async def requeue_dead(knowledge: GivenKnowledge) -> schemas.RequeuedEvents:
    """Try dead events again, with no attempts counted: up to 10,000 at once."""
    requeued = await outbox_queue(knowledge).requeue(state="dead", limit=MOST_REQUEUED)
    return schemas.RequeuedEvents(requeued=requeued)


@router.post(
    "/outbox/{event_id}/requeue", tags=["outbox"], responses=problems(s404="no such event", s409="it is not dead")
)
async def requeue_one(
    knowledge: GivenKnowledge, event_id: Annotated[int, Path(ge=1, le=LARGEST_ID)]
) -> schemas.RequeuedEvents:
    """Try a dead event again, with no attempts counted."""
    requeued = await outbox_queue(knowledge).requeue(event_id, state="dead")
    if not requeued:
        event = await knowledge.mill.run(lambda connection: one_event(connection, event_id), write=False)
        if event is None:
            raise HTTPException(404, {"code": "no_such_event", "message": f"there is no event {event_id}"})
        raise HTTPException(409, {"code": "not_dead", "message": f"event {event_id} is {event['state']}"})
    return schemas.RequeuedEvents(requeued=requeued)


@router.get("/users", tags=["users"])
async def list_users(knowledge: GivenKnowledge, after: After = "", limit: Limit = 50) -> schemas.UserList:
    """List users by email."""
    page = await list_accounts(knowledge, after=after, limit=limit)
    return schemas.UserList(users=[schemas.UserOut.model_validate(each) for each in page.accounts], next=page.next)


@router.post(
    "/users",
    tags=["users"],
    dependencies=[BY_PASSWORD],
    status_code=201,
    responses=problems(s409="there is a user with this email"),
)
async def create_user(knowledge: GivenKnowledge, given: schemas.UserIn) -> schemas.UserOut:
    """Create a user with a first password."""
    made = await create_account(knowledge, given.email, given.password, role=given.role)
    return schemas.UserOut.model_validate(made)


@router.get("/users/{user_id}", tags=["users"], responses=NO_USER)
async def one_user(knowledge: GivenKnowledge, user_id: uuid.UUID) -> schemas.UserOut:
    """Return a user."""
    return schemas.UserOut.model_validate(await find_account(knowledge, user_id))


@router.patch(
    "/users/{user_id}",
    tags=["users"],
    dependencies=[BY_PASSWORD],
    responses={**NO_USER, **problems(s409="the last administrator")},
)
async def change_user(knowledge: GivenKnowledge, user_id: uuid.UUID, given: schemas.UserEdit) -> schemas.UserOut:
    """Change what a user may do."""
    changed = await change_account(knowledge, user_id, role=given.role, is_active=given.is_active)
    return schemas.UserOut.model_validate(changed)


@router.put("/users/{user_id}/password", tags=["users"], dependencies=[BY_PASSWORD], status_code=204, responses=NO_USER)
async def put_user_password(knowledge: GivenKnowledge, user_id: uuid.UUID, given: schemas.UserPasswordIn) -> Response:
    """Set the password of a user. All of the user's logins and tokens end."""
    await set_password(knowledge, user_id, given.password)
    return Response(status_code=204)


@router.delete(
    "/users/{user_id}",
    tags=["users"],
    dependencies=[BY_PASSWORD],
    status_code=204,
    responses={**NO_USER, **problems(s409="the last administrator")},
)
async def delete_user(knowledge: GivenKnowledge, user_id: uuid.UUID) -> Response:
    """Delete a user, with all logins and tokens. Documents stay."""
    await delete_account(knowledge, user_id)
    return Response(status_code=204)
