"""Do the stores agree? The last comparisons, what they found, and new ones. For administrators."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

import rowmill as rm
from rowmill.web.problems import problem_response, problems
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.consistency.checking import check, history, open_findings
from rowmill_systems.knowledge.consistency.kinds import KINDS_BY_NAME
from rowmill_systems.knowledge.consistency.orphans import MOST, preview_orphans, remove_orphans
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import GivenKnowledge, with_role
from rowmill_systems.parts.values import storable

MOST_RUNS = 200
Cap = Annotated[int, Query(ge=1, le=MOST, description="The most that are removed.")]


async def alone(request: Request) -> AsyncIterator[None]:
    """Refuse a second comparison while this server does one: each reads all stores to their end."""
    lock: asyncio.Lock = request.app.state.comparing
    if lock.locked():
        raise rm.errors.ReconciliationBusy("the stores are being compared just now")
    async with lock:
        yield


async def answer_busy(request: Request, error: Exception) -> Response:
    return problem_response(request.scope, 409, {"code": "busy", "message": str(error)})


ForAdministrators = Depends(with_role(KnowledgeRole.ADMINISTRATOR))
Alone = Depends(alone)
BUSY = problems(s409="the stores are being compared just now")
router = APIRouter(
    prefix="/api/v1/admin/consistency",
    tags=["consistency"],
    dependencies=[ForAdministrators],
    responses=problems(s403="not an administrator, or a page of another site asks"),
)


@router.get("")
async def last_runs(
    knowledge: GivenKnowledge, limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 20
) -> schemas.ComparisonList:
    """List the last comparisons that mended, the latest first, with their findings by kind."""
    runs = await history(knowledge, limit)
    return schemas.ComparisonList(runs=[schemas.ComparisonRun.model_validate(run) for run in runs])


@router.get("/findings")
async def list_findings(
    knowledge: GivenKnowledge,
    kind: Annotated[str | None, Query(max_length=100)] = None,
    after: Annotated[str, Query(max_length=2000, description="The `next` of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> schemas.FindingList:
    """List findings that are open, by kind and key."""
    if kind is not None and kind not in KINDS_BY_NAME:
        raise HTTPException(422, {"code": "invalid", "message": f"kinds are {', '.join(sorted(KINDS_BY_NAME))}"})
    before, _, key = str(storable(after)).partition("/")
    found = await open_findings(knowledge, kind, after=(before, key) if after else None, limit=limit + 1)
    following = f"{found[limit - 1].kind}/{found[limit - 1].key}" if len(found) > limit else None
    findings = [schemas.OpenFindingOut.model_validate(each) for each in found[:limit]]
    return schemas.FindingList(findings=findings, next=following)


@router.post("/checks", dependencies=[Alone], responses=BUSY)
async def compare(knowledge: GivenKnowledge, given: schemas.ComparisonIn) -> schemas.ComparisonReport:
    """Compare the stores now: a plan, which writes nothing, or with `execute`. Answers when it is done."""
    report = await check(knowledge, execute=given.execute, believe_empty=given.believe_empty)
    return schemas.ComparisonReport.model_validate(report.as_dict())


@router.get("/orphans", dependencies=[Alone], responses=BUSY)
async def look_for_orphans(knowledge: GivenKnowledge, cap: Cap = 100) -> schemas.OrphansOut:
    """Compare the stores, and list orphans: what no row of the database explains. Removes nothing."""
    return schemas.OrphansOut.model_validate((await preview_orphans(knowledge, cap)).as_dict())


@router.post("/orphans/remove", dependencies=[Alone], responses=BUSY)
async def remove(knowledge: GivenKnowledge, given: schemas.OrphanRemovalIn) -> schemas.OrphansOut:
    """Remove orphans, up to a cap. Each is looked at again right before. Look at the preview first."""
    return schemas.OrphansOut.model_validate((await remove_orphans(knowledge, given.cap)).as_dict())
