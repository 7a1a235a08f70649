"""The forms of those who operate it, and of one's own account. If something can't be done, the page shows why."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

import rowmill as rm
from rowmill.web.site import see_other
from rowmill_systems.knowledge.accounts.logins import change_password
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.tokens import create_token, revoke_token
from rowmill_systems.knowledge.accounts.users import change_account, create_account, delete_account
from rowmill_systems.knowledge.web.administration import outbox_queue
from rowmill_systems.knowledge.web.asking import GivenAdministrator, GivenKnowledge, GivenPerson, address_of
from rowmill_systems.knowledge.web.comparing import the_job
from rowmill_systems.knowledge.web.pages_admin import (
    EventId,
    show_account,
    show_consistency,
    show_event,
    show_people,
    words_for,
)

router = APIRouter(include_in_schema=False)
Written = Annotated[str, Form(max_length=2000)]
LONGEST_DAYS = 36_500
REMOVE = "remove"


@router.post("/consistency/check")
async def check_now(knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request) -> Response:
    """Compare the stores, and write nothing."""
    await the_job(request).check(knowledge)
    return see_other(request, "/consistency")


@router.post("/consistency/mend")
async def mend(knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request) -> Response:
    await the_job(request).mend(knowledge)
    return see_other(request, "/consistency")


@router.post("/consistency/orphans")
async def look_for_orphans(knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request) -> Response:
    await the_job(request).look_for_orphans(knowledge)
    return see_other(request, "/consistency#orphans")


@router.post("/consistency/orphans/remove")
async def remove_orphans(
    knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request, confirm: Written = ""
) -> Response:
    """Remove what the preview listed, if that was confirmed."""
    if confirm.strip() != REMOVE:
        return await show_consistency(knowledge, request, code=422, problem=f"Not removed: type {REMOVE} to confirm.")
    await the_job(request).remove_orphans(knowledge)
    return see_other(request, "/consistency#orphans")


@router.post("/outbox/{event_id}/requeue")
async def requeue(
    knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request, event_id: EventId
) -> Response:
    """Have an event tried again, with no tries counted."""
    if not await outbox_queue(knowledge).requeue(event_id):
        problem = "Not done: it is gone, processed, or being processed."
        return await show_event(knowledge, request, event_id, code=409, problem=problem)
    return see_other(request, f"/outbox/{event_id}")


@router.post("/people")
async def add_person(
    knowledge: GivenKnowledge,
    administrator: GivenAdministrator,
    request: Request,
    email: Written = "",
    password: Written = "",
    role: KnowledgeRole = Form(KnowledgeRole.VIEWER),  # noqa: B008
) -> Response:
    try:
        await create_account(knowledge, email, password, role=role)
    except rm.errors.WorkError as error:
        return await show_people(knowledge, administrator, request, code=422, problem=words_for(error))
    return see_other(request, "/people")


@router.post("/people/{user_id}")
async def change_person(
    knowledge: GivenKnowledge,
    administrator: GivenAdministrator,
    request: Request,
    user_id: UUID,
    choice: Written = "",
    role: Annotated[KnowledgeRole, Form()] = KnowledgeRole.VIEWER,
) -> Response:
    """Change what somebody may do, lock them out, let them in, or delete them."""
    try:
        match choice:
            case "role":
                await change_account(knowledge, user_id, role=role)
            case "close" | "open":
                await change_account(knowledge, user_id, is_active=choice == "open")
            case "delete":
                await delete_account(knowledge, user_id)
    except rm.errors.WorkError as error:
        return await show_people(knowledge, administrator, request, code=409, problem=words_for(error))
    return see_other(request, "/people")


@router.post("/account/tokens")
async def add_token(
    knowledge: GivenKnowledge, caller: GivenPerson, request: Request, name: Written = "", days: Written = ""
) -> Response:
    """Make a token, and show it this once: it is in no address, and a reload does not bring it back."""
    given = days.strip()
    if given and not (given.isdecimal() and 0 < int(given) <= LONGEST_DAYS):
        problem = "Not made: write a number of days, or nothing."
        return await show_account(knowledge, caller, request, code=422, problem=problem)
    try:
        token, _ = await create_token(knowledge, caller.account.id, name, days=int(given) if given else None)
    except rm.errors.WorkError as error:
        return await show_account(knowledge, caller, request, code=422, problem=words_for(error))
    return await show_account(knowledge, caller, request, token=token)


@router.post("/account/tokens/{token_id}/revoke")
async def revoke(knowledge: GivenKnowledge, caller: GivenPerson, request: Request, token_id: UUID) -> Response:
    await revoke_token(knowledge, caller.account.id, token_id)
    return see_other(request, "/account")


@router.post("/account/password")
async def new_password(
    knowledge: GivenKnowledge, caller: GivenPerson, request: Request, current: Written = "", new: Written = ""
) -> Response:
    try:
        await change_password(knowledge, caller, current=current, new=new, address=address_of(request))
    except rm.errors.WorkError as error:
        return await show_account(knowledge, caller, request, code=422, problem=words_for(error))
    return see_other(request, "/account?done=password")
