"""Log in and out, and manage one's own password and tokens."""

import uuid

from fastapi import APIRouter, Query, Request, Response

from rowmill.web.problems import problem_response, problems
from rowmill_systems.knowledge.accounts.errors import LoginsBlocked
from rowmill_systems.knowledge.accounts.logins import change_password, log_in, log_out
from rowmill_systems.knowledge.accounts.tokens import create_token, list_tokens, revoke_token
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import (
    GivenKnowledge,
    GivenPerson,
    GivenViewer,
    address_of,
    logged_in_by_password,
    session_cookie,
)

router = APIRouter(prefix="/api/v1", tags=["login"])
REFUSED = problems(s401="the email or the password is wrong", s429="too many logins failed: see Retry-After")
BY_PASSWORD = problems(s403="a page of another site asks, or a token for programs is not enough")


@router.post("/login", responses=REFUSED)
async def login(knowledge: GivenKnowledge, request: Request, given: schemas.LoginIn) -> schemas.LoginOut:
    """Log in. The token holds for KNOWLEDGE_SESSION_HOURS; for programs, make one that lasts at /me/tokens."""
    made = await log_in(knowledge, given.email, given.password, address=address_of(request))
    user = schemas.UserOut.model_validate(made.account)
    return schemas.LoginOut(token=made.token, expires_at=made.expires_at, user=user)


@router.post("/logout", status_code=204)
async def logout(
    knowledge: GivenKnowledge,
    caller: GivenViewer,
    request: Request,
    everywhere: bool = Query(default=False, description="End all of your logins and tokens."),
) -> Response:
    """End the login that asks."""
    if everywhere:
        logged_in_by_password(request)
    await log_out(knowledge, caller, everywhere=everywhere)
    answer = Response(status_code=204)
    session_cookie(knowledge).clear(request, answer)
    return answer


@router.get("/me")
async def me(caller: GivenViewer) -> schemas.MeOut:
    """Return who is logged in, and what they may do."""
    user = schemas.UserOut.model_validate(caller.account)
    return schemas.MeOut(**user.model_dump(), logged_in_by=caller.kind.value)


@router.put("/me/password", status_code=204, responses={**REFUSED, **BY_PASSWORD})
async def put_password(
    knowledge: GivenKnowledge, caller: GivenPerson, request: Request, given: schemas.PasswordIn
) -> Response:
    """Change your password. All of your other logins and tokens end."""
    await change_password(knowledge, caller, current=given.current, new=given.new, address=address_of(request))
    return Response(status_code=204)


@router.get("/me/tokens")
async def tokens(knowledge: GivenKnowledge, caller: GivenViewer) -> schemas.TokenList:
    """List your tokens for programs, the newest first."""
    found = await list_tokens(knowledge, caller.account.id)
    return schemas.TokenList(tokens=[schemas.TokenOut.model_validate(each) for each in found])


@router.post(
    "/me/tokens", status_code=201, responses={**BY_PASSWORD, **problems(s409="you have as many tokens as one may have")}
)
async def add_token(knowledge: GivenKnowledge, caller: GivenPerson, given: schemas.TokenIn) -> schemas.NewTokenOut:
    """Make a token for a program. It has your rights, and is shown once."""
    token, summary = await create_token(knowledge, caller.account.id, given.name, days=given.days)
    return schemas.NewTokenOut(**schemas.TokenOut.model_validate(summary).model_dump(), token=token)


@router.delete("/me/tokens/{token_id}", status_code=204, responses=problems(s404="no such token"))
async def delete_token(knowledge: GivenKnowledge, caller: GivenViewer, token_id: uuid.UUID) -> Response:
    """Revoke a token of yours."""
    await revoke_token(knowledge, caller.account.id, token_id)
    return Response(status_code=204)


async def answer_blocked(request: Request, error: Exception) -> Response:
    assert isinstance(error, LoginsBlocked)
    problem = {"code": error.code, "message": str(error)}
    return problem_response(request.scope, 429, problem, {"retry-after": str(error.seconds)})
