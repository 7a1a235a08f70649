"""The pages of articles, and how they show topics, health and sanitised HTML."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import nh3
from markupsafe import Markup

from rowmill.web.headers import HEADERS
from rowmill.web.site import NavLink, Site
from rowmill_systems.articles.health import per_day
from rowmill_systems.articles.reads import DAYS

POLICY = "content-security-policy"
WITH_IMAGES = {POLICY: HEADERS[POLICY].replace("img-src 'self'", "img-src 'self' https:")}
"""The headers of a page on which the reader asked for the images of an article."""
TAGS = frozenset({
    "a", "abbr", "b", "blockquote", "br", "cite", "code", "dd", "del", "dl", "dt", "em", "figcaption", "figure", "h2",
    "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small",
    "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr", "u", "ul", "var",
})  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "abbr": {"title"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}}
IMAGES = {"img": {"src", "alt", "width", "height"}}
STATUS_TONES = {"pending": "info", "processing": "busy", "completed": "good", "failed": "bad", "cancelled": "plain"}
HEALTH_TONES = {
    "ok": "good", "new": "info", "silent": "wait", "failing": "busy", "failed": "bad", "paused": "plain",
    "retired": "plain",
}  # fmt: skip
HAS_IMAGE = re.compile(r"<img\b", re.IGNORECASE)


def sanitised(html: str, images: bool = False) -> Markup:
    """Return the HTML of a feed for a page: no scripts, styles, ids or forms; images only if they are asked for.

    It was sanitised when it was saved. Again here: others may write to the table, and an image of a feed tells its
    server who reads what, and when.
    """
    clean = nh3.clean(
        html,
        tags=set(TAGS | IMAGES.keys()) if images else set(TAGS),
        clean_content_tags={"script", "style", "template", "noscript"},
        attributes={**ATTRIBUTES, **IMAGES} if images else dict(ATTRIBUTES),
        url_schemes={"https", "http"},
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)  # noqa: S704


def web_link(address: str | None) -> str:
    """Return an address that a page may link to; "" for one of another kind, as javascript:."""
    return address if address and address.lower().startswith(("https://", "http://")) else ""


def has_images(html: str) -> bool:
    return HAS_IMAGE.search(html) is not None


def topic_list(value: Any) -> list[str]:
    """Return the topics of a row, whatever JSON somebody wrote there."""
    return (
        [each for each in value if isinstance(each, str)]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else []
    )


def score_of(scores: Any, topic: str) -> float | None:
    found = scores.get(topic) if isinstance(scores, Mapping) else None
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None


def duration(seconds: float | None) -> str:
    """Return a length of time in its largest unit: "30 minutes"."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size:
            number = round(seconds / size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "less than a second"


site = Site(
    "Articles",
    __package__,
    pages=[
        NavLink("For you", "/", within=["/read"]),
        NavLink("All articles", "/browse"),
        NavLink("Topics", "/interests"),
        NavLink("Sources", "/subscriptions"),
        NavLink("Queue", "/queue"),
        NavLink("API", "/docs"),
    ],
    sanitised=sanitised,
    has_images=has_images,
    web_link=web_link,
    topic_list=topic_list,
    score_of=score_of,
    duration=duration,
    per_day=lambda recent: per_day(recent, DAYS),
    status_tone=lambda status: STATUS_TONES.get(status, "plain"),
    health_tone=lambda health: HEALTH_TONES.get(str(health), "plain"),
)
