"""Dependencies of the endpoints: the system, who asks, and what a path names."""

import uuid
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Query, Request

from rowmill.web.login.cookies import SessionCookie
from rowmill.web.login.required import caller_of
from rowmill.web.site import SignedIn, root_of
from rowmill_systems.knowledge.accounts.logins import Caller, TokenKind, find_caller
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.bases import find_kb
from rowmill_systems.knowledge.documents import find_document
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, KnowledgeBase

COOKIE = "knowledge_session"
ACCOUNT_PAGE = "/account"
PROGRAMS = ("/api/", "/openapi.json")
"""Where tokens of programs are taken."""


def the_knowledge(request: Request) -> Knowledge:
    found: Knowledge = request.app.state.knowledge
    return found


GivenKnowledge = Annotated[Knowledge, Depends(the_knowledge)]


def session_cookie(knowledge: Knowledge) -> SessionCookie:
    return SessionCookie(COOKIE, secure=knowledge.settings.secure_cookies)


async def find_who_asks(request: Request, token: str, in_cookie: bool) -> Caller | None:
    """Return who has a token. In a cookie, and for pages, it has to be that of a login."""
    caller = await find_caller(the_knowledge(request), token)
    for_programs = not in_cookie and request.scope["path"].removeprefix(root_of(request)).startswith(PROGRAMS)
    if caller is None or (caller.kind is TokenKind.BEARER and not for_programs):
        return None
    SignedIn(caller.account.email, caller.account.role, page=ACCOUNT_PAGE).shown_on(request)
    return caller


def the_caller(request: Request) -> Caller:
    found: Caller = caller_of(request)
    return found


def with_role(needed: KnowledgeRole) -> Callable[[Request], Caller]:
    """Return a dependency that refuses callers without a role."""

    def check(request: Request) -> Caller:
        caller = the_caller(request)
        if not caller.account.role.may(needed):
            raise HTTPException(403, {"code": "role_needed", "message": f"this needs the role {needed}"})
        return caller

    return check


def logged_in_by_password(request: Request) -> Caller:
    """Refuse tokens of programs: one that was stolen must not make others, nor lock out its owner."""
    caller = the_caller(request)
    if caller.kind is not TokenKind.SESSION:
        raise HTTPException(403, {"code": "login_needed", "message": "log in with your password for this"})
    return caller


GivenViewer = Annotated[Caller, Depends(the_caller)]
GivenEditor = Annotated[Caller, Depends(with_role(KnowledgeRole.EDITOR))]
GivenAdministrator = Annotated[Caller, Depends(with_role(KnowledgeRole.ADMINISTRATOR))]
GivenPerson = Annotated[Caller, Depends(logged_in_by_password)]

KbId = Annotated[uuid.UUID, Path()]
DocumentId = Annotated[uuid.UUID, Path()]
After = Annotated[str, Query(max_length=5_000, description="The `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=200)]


async def the_kb(knowledge: GivenKnowledge, kb_id: KbId) -> KnowledgeBase:
    return await find_kb(knowledge, kb_id)


async def the_document(knowledge: GivenKnowledge, document_id: DocumentId) -> KbDocument:
    return await find_document(knowledge, document_id)


GivenKb = Annotated[KnowledgeBase, Depends(the_kb)]
GivenDocument = Annotated[KbDocument, Depends(the_document)]


def address_of(request: Request) -> str:
    """Return where a request comes from. Behind a proxy, the server takes it from X-Forwarded-For."""
    return request.client.host if request.client is not None else "unknown"
