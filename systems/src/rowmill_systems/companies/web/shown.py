"""The pages of companies, and how they show statuses, rungs and reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowmill.web.site import NavLink, Site
from rowmill_systems.companies.reads import RungDay

TONES = {"pending": "info", "processing": "busy", "done": "good", "failed": "bad"}
RUNGS = {
    "plan_code": "Plan code",
    "account_number": "Account number",
    "hardcode": "Override",
    "account_name": "Account name",
    "company_name": "Company name",
    "cache": "Cache",
    "queue": "Queue",
    "none": "No name",
}
"""How the rungs of the ladder are called; a provider has its own name."""
RUNG_TONES = {"cache": "busy", "queue": "wait", "none": "plain"}
OUTCOMES = {"no_match": ("no match", "plain"), "unsure": ("to decide", "wait"), "merged": ("merged", "plain")}
"""Answers of requests that are done without a company."""
REASONS = {
    "core": "words",
    "legal_form": "legal form",
    "kind_of_form": "kind of legal form",
    "normal": "name",
    "order": "order of words",
    "region": "region",
    "numbers": "numbers",
    "branch": "branch",
    "group": "group",
    "former_name": "former name",
}
CHART_HEIGHT, BAR, GAP = 100.0, 28.0, 8.0


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar of the chart: one rung on one day."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str


def rung_name(rung: str) -> str:
    return RUNGS.get(rung, rung)


def rung_tone(rung: str) -> str:
    """Return the tone of a rung: what people mapped, the cache, a provider, the queue."""
    if rung in RUNG_TONES:
        return RUNG_TONES[rung]
    return "good" if rung in RUNGS else "info"


def reason_name(code: str) -> str:
    return REASONS.get(code, code.replace("_", " "))


def chart(days: Sequence[RungDay], rungs: Sequence[str]) -> list[BarPart]:
    """Return the bars of a chart: a day each, stacked by rung."""
    most = max((day.total for day in days), default=0)
    parts: list[BarPart] = []
    for place, day in enumerate(days):
        top = CHART_HEIGHT
        for rung in rungs:
            if not (names := day.names.get(rung, 0)):
                continue
            height = CHART_HEIGHT * names / most
            top -= height
            title = f"{day.day}: {names:,} by {rung_name(rung).lower()}"
            parts.append(BarPart(place * (BAR + GAP), top, BAR, height, rung_tone(rung), title))
    return parts


site = Site(
    "Companies",
    __package__,
    pages=[
        NavLink("Overview", "/"),
        NavLink("Requests", "/requests"),
        NavLink("Review", "/review"),
        NavLink("Conflicts", "/conflicts"),
        NavLink("API", "/docs"),
    ],
    status_tone=lambda status: TONES.get(status, "plain"),
    rung=rung_name,
    rung_tone=rung_tone,
    reason=reason_name,
    outcome=lambda outcome: OUTCOMES.get(outcome, ("done", "good")),
)
