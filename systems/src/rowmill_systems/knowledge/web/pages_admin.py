"""Pages of those who operate it: consistency, the outbox, people, and one's own account."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse

import rowmill as rm
from rowmill import reconcile
from rowmill_systems.knowledge.accounts.logins import Caller
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.tokens import list_tokens
from rowmill_systems.knowledge.accounts.users import list_accounts
from rowmill_systems.knowledge.consistency.checking import history, open_findings
from rowmill_systems.knowledge.consistency.items import DOCUMENT, KB
from rowmill_systems.knowledge.consistency.kinds import KINDS, KINDS_BY_NAME, DriftKind, Mending
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, KnowledgeBase
from rowmill_systems.knowledge.queues import EVENT_TYPES
from rowmill_systems.knowledge.settings import MAX_OUTBOX_ATTEMPTS
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.asking import GivenAdministrator, GivenKnowledge, GivenViewer
from rowmill_systems.knowledge.web.comparing import stopping_with_app, the_job
from rowmill_systems.knowledge.web.explaining import explain
from rowmill_systems.knowledge.web.pages import After, Word
from rowmill_systems.knowledge.web.shown import EVENTS, site
from rowmill_systems.parts.values import storable

router = APIRouter(include_in_schema=False, lifespan=stopping_with_app)
RUNS, SAMPLE, FINDINGS_ON_A_PAGE = 30, 20, 50
STATES = [(state, state.capitalize()) for state in ("pending", "processing", "processed", "dead")]
TYPES = [(name, EVENTS.get(name, name)) for name in EVENT_TYPES]
EventId = Annotated[int, Path(ge=1, le=2**63 - 1)]


@router.get("/consistency")
async def consistency(knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request) -> HTMLResponse:
    return await show_consistency(knowledge, request)


async def show_consistency(
    knowledge: Knowledge, request: Request, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show what the comparisons of the stores found, and what an administrator can do about it."""
    runs = await history(knowledge, RUNS)
    last = next((run for run in runs if run.ended_at is not None), None)
    counts = last.kinds if last is not None else {}
    kinds = [(kind, counts.get(kind.name, 0)) for kind in KINDS]
    job = the_job(request)
    sample = [shown_finding(one.kind, one.text) for one in job.plan.findings[:SAMPLE]] if job.plan is not None else []
    return site.page(
        "consistency.html", request, code=code, problem=problem, job=job, plan=job.plan, orphans=job.orphans,
        runs=runs, last=last, drift=drift_of(runs), sample=await with_names(knowledge, sample),
        open_kinds=[pair for pair in kinds if pair[1]], other_kinds=[pair for pair in kinds if not pair[1]],
        planned=planned_kinds(job.plan), cap=knowledge.settings.reconcile_cap, cron=knowledge.settings.reconcile_cron,
    )  # fmt: skip


def drift_of(runs: Sequence[reconcile.RunView]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return a column for each run, the oldest first: what was mended, and what was not."""
    columns = []
    for run in reversed(runs):
        at = f"{run.started_at:%Y-%m-%d %H:%M} UTC" if run.started_at else ""
        words = f"{at}: {run.findings:,} findings, {run.corrected:,} mended"
        mended = min(run.corrected, run.findings)
        columns.append((words, [(mended, "info"), (run.findings - mended, "bad")]))
    return columns


def planned_kinds(plan: reconcile.Reconciled | None) -> list[tuple[DriftKind, int]]:
    """Return what events would mend of a plan, by kind: of a long plan, of the findings that it lists."""
    if plan is None:
        return []
    due = Counter(one.kind for one in plan.findings if one.corrected_at is None)
    return [(KINDS_BY_NAME[name], number) for name, number in due.items() if is_mended_by_event(name)]


def is_mended_by_event(kind: str) -> bool:
    return KINDS_BY_NAME[kind].mending is Mending.EVENT


def shown_finding(kind: str, key: str) -> dict[str, Any]:
    """Return a finding as a list shows it, with a link to what it is about if that has a page."""
    part, _, own = key.partition(":")
    of = KINDS_BY_NAME[kind]
    has_page = of.mending is not Mending.REQUEST and not kind.startswith("leftover")
    path = {DOCUMENT: "/documents/", KB: "/bases/"}.get(part) if has_page else None
    return {"kind": kind, "key": key, "mending": of.mending, "path": f"{path}{own}" if path else None, "name": key}


async def with_names(knowledge: Knowledge, findings: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return findings with the names of what they are about, if that is still there."""
    ids = {part: [UUID(one["key"].partition(":")[2]) for one in findings if one["path"] and is_about(one, part)]
           for part in (DOCUMENT, KB)}  # fmt: skip
    names = await knowledge.mill.run(lambda c: reads.names_of(c, ids[DOCUMENT], ids[KB]), write=False)
    return [one | {"name": names.get(one["key"].partition(":")[2], one["key"])} for one in findings]


def is_about(finding: Mapping[str, Any], part: str) -> bool:
    return bool(finding["key"].startswith(f"{part}:"))


@router.get("/consistency/findings")
async def findings(
    knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request, kind: Word, after: After = ""
) -> HTMLResponse:
    """Show the open findings of a kind."""
    of = KINDS_BY_NAME.get(kind)
    if of is None:
        raise HTTPException(404, {"code": "no_such_kind", "message": "there is no such kind of finding"})
    since = (kind, storable(after)) if after else None
    found = await open_findings(knowledge, kind, after=since, limit=FINDINGS_ON_A_PAGE + 1)
    rows = [
        {
            **shown_finding(one.kind, one.key),
            "found_at": one.found_at,
            "seen_at": one.seen_at,
            "corrected_at": one.corrected_at,
            "corrections": one.corrections,
        }
        for one in found[:FINDINGS_ON_A_PAGE]
    ]
    following = rows[-1]["key"] if len(found) > FINDINGS_ON_A_PAGE else None
    return site.page(
        "findings.html", request, kind=of, findings=await with_names(knowledge, rows), next=following, after=after
    )


@router.get("/outbox")
async def outbox(
    knowledge: GivenKnowledge,
    administrator: GivenAdministrator,
    request: Request,
    state: Word = "",
    type: Word = "",
    aggregate: Annotated[str, Query(max_length=100)] = "",
    after: After = "",
) -> HTMLResponse:
    """Show how the outbox stands, and its events, the latest first."""
    wanted = {"state": state, "event_type": type, "aggregate": aggregate.strip()}

    def read(connection: sa.Connection) -> dict[str, Any]:
        page = reads.event_page(connection, **{name: storable(text) for name, text in wanted.items()}, after=after)
        return {
            "page": page,
            "names": names_of_aggregates(connection, page.rows),
            "stats": knowledge.outbox.stats_on(connection),
        }

    found = await knowledge.mill.run(read, write=False)
    return site.page(
        "outbox.html", request, **found, state=state, type=type, aggregate=aggregate, after=after, states=STATES,
        types=TYPES,
    )  # fmt: skip


def names_of_aggregates(connection: sa.Connection, events: Sequence[sa.RowMapping]) -> dict[str, str]:
    """Return the names of the documents and knowledge bases that events are about, by their ids."""
    documents, kbs = list[UUID](), list[UUID]()
    for each in events:
        with suppress(ValueError):
            id = UUID(each["aggregate_id"] or "")
            (kbs if is_about_kb(each) else documents).append(id)
    return reads.names_of(connection, documents, kbs)


def is_about_kb(event: sa.RowMapping) -> bool:
    return str(event["event_type"]).startswith("kb.")


@router.get("/outbox/{event_id}")
async def event(
    knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request, event_id: EventId
) -> HTMLResponse:
    return await show_event(knowledge, request, event_id)


async def show_event(
    knowledge: Knowledge, request: Request, event_id: int, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show an event: its error in words, and what it is about."""

    def read(connection: sa.Connection) -> tuple[sa.RowMapping | None, str | None]:
        row = reads.one_event(connection, event_id)
        return row, None if row is None else page_about(connection, row)

    row, about = await knowledge.mill.run(read, write=False)
    if row is None:
        raise HTTPException(404, {"code": "no_such_event", "message": "there is no such event, or it was deleted"})
    return site.page(
        "event.html", request, code=code, problem=problem, event=row, about=about, most=MAX_OUTBOX_ATTEMPTS,
        said=explain((row["last_error"] or "").partition(":")[0]),
        payload=json.dumps(row["payload"], ensure_ascii=False, sort_keys=True),
    )  # fmt: skip


# served by: the primary keys
def page_about(connection: sa.Connection, row: sa.RowMapping) -> str | None:
    """Return the page of what an event is about, if it is there."""
    try:
        id = UUID(row["aggregate_id"] or "")
    except ValueError:
        return None
    is_kb = is_about_kb(row)
    of: Any = KnowledgeBase if is_kb else KbDocument
    status = connection.scalar(sa.select(of.status).where(of.id == id))
    if status is None or status in ("deleting", "archived"):
        return None
    return f"/bases/{id}" if is_kb else f"/documents/{id}"


@router.get("/people")
async def people(
    knowledge: GivenKnowledge, administrator: GivenAdministrator, request: Request, after: After = ""
) -> HTMLResponse:
    return await show_people(knowledge, administrator, request, after=after)


async def show_people(
    knowledge: Knowledge,
    administrator: Caller,
    request: Request,
    *,
    after: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show who may log in, and what they may do."""
    page = await list_accounts(knowledge, after=after)
    return site.page(
        "people.html", request, code=code, problem=problem, people=page.accounts, next=page.next, after=after,
        me=administrator.account.id, roles=list(KnowledgeRole),
    )  # fmt: skip


@router.get("/account")
async def account(knowledge: GivenKnowledge, viewer: GivenViewer, request: Request, done: Word = "") -> HTMLResponse:
    changed = "The password was changed. All other logins and tokens of yours have ended." if done == "password" else ""
    return await show_account(knowledge, viewer, request, changed=changed)


async def show_account(
    knowledge: Knowledge,
    caller: Caller,
    request: Request,
    *,
    token: str = "",
    changed: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show one's own tokens. A new one is shown this once."""
    tokens = await list_tokens(knowledge, caller.account.id)
    return site.page(
        "account.html", request, code=code, problem=problem, account=caller.account, tokens=tokens, token=token,
        changed=changed,
    )  # fmt: skip


def words_for(error: Exception) -> str:
    """Return why something was not done, for the top of a page."""
    assert isinstance(error, rm.errors.WorkError | rm.errors.BadRequest)
    return f"Not done: {error}."
