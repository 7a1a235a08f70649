"""The page for logging in, and the button for logging out."""

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import Response

import rowmill as rm
from rowmill.web.login.cookies import names_own_origin
from rowmill.web.login.required import NO_ORIGIN
from rowmill.web.site import local_path, see_other
from rowmill_systems.knowledge.accounts.errors import LoginsBlocked, WrongLogin
from rowmill_systems.knowledge.accounts.logins import find_caller, log_in, log_out
from rowmill_systems.knowledge.web.asking import GivenKnowledge, GivenViewer, address_of, session_cookie
from rowmill_systems.knowledge.web.shown import site

router = APIRouter(include_in_schema=False)
Written = Annotated[str, Form(max_length=4000)]


@router.get("/login")
async def show(request: Request, next: str = "/") -> Response:
    return login_page(request, next=local_path(next))


def login_page(request: Request, *, next: str, user: str = "", code: int = 200, problem: str | None = None) -> Response:
    values = {"next": next, "user": user, "label": "Email", "kind": "email", "problem": problem}
    return site.page("rowmill/login.html", request, code=code, **values)


@router.post("/login")
async def login(
    knowledge: GivenKnowledge, request: Request, user: Written, password: Written, next: Written = "/"
) -> Response:
    """Log in. The browser gets a new session, whatever it had before."""
    if not names_own_origin(request.headers):
        raise HTTPException(403, NO_ORIGIN)
    following = local_path(next)
    try:
        made = await log_in(knowledge, user, password, address=address_of(request))
    except WrongLogin:
        return login_page(request, next=following, user=user, code=401, problem="The email or the password is wrong.")
    except LoginsBlocked as error:
        problem = f"Too many logins failed. Try again in {error.seconds} s."
        answer = login_page(request, next=following, user=user, code=429, problem=problem)
        answer.headers["retry-after"] = str(error.seconds)
        return answer
    except rm.TransientError as error:
        return login_page(request, next=following, user=user, code=503, problem=f"Not now: {error}.")
    cookie = session_cookie(knowledge)
    before = cookie.read(request)
    caller = None if before is None else await find_caller(knowledge, before)
    if caller is not None:
        await log_out(knowledge, caller)
    answer = see_other(request, following)
    cookie.write(request, answer, made.token, knowledge.settings.session_hours * 3600)
    return answer


@router.post("/logout")
async def logout(knowledge: GivenKnowledge, caller: GivenViewer, request: Request) -> Response:
    await log_out(knowledge, caller)
    answer = see_other(request, "/login")
    session_cookie(knowledge).clear(request, answer)
    return answer
