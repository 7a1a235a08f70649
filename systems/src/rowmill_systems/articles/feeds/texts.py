"""HTML of strangers: sanitised to show, and as plain text to read."""

import html
import re
from collections.abc import Callable
from typing import cast

import nh3

from rowmill_systems.articles.feeds.links import absolute_link
from rowmill_systems.parts.values import storable

LONGEST_HTML = 200_000
"""Before it is cleaned. Cleaned, it may be up to twice as long: each link gets a `rel`."""
LONGEST_TEXT = 20_000
LONGEST_TITLE = 500
GONE = {"script", "style", "template", "noscript", "iframe", "object", "svg", "math", "textarea", "select", "form"}
"""Tags that go with all that is inside them."""
SCHEMES = {"http", "https", "mailto"}
BREAKING = {
    "p", "div", "br", "hr", "li", "ul", "ol", "dl", "dt", "dd", "tr", "td", "th", "table", "blockquote", "pre",
    "figure", "figcaption", "section", "article", "header", "footer", "aside", "h1", "h2", "h3", "h4", "h5", "h6",
}  # fmt: skip
TAG = re.compile(r"<[^>]*>")
BLANKS = re.compile(r"\s+")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text around them."""
IMAGE = re.compile(r'<img [^>]*?src="([^"]+)"')


def sanitised(text: str, base: str | None) -> str:
    """Return HTML that is safe to show, with absolute links."""
    # Typed as a plain function: nh3 takes any callable.
    resolve = cast("Callable[[str], str | None]", lambda link: absolute_link(link, base))
    clean = nh3.clean(
        text[:LONGEST_HTML],
        tags=nh3.ALLOWED_TAGS - {"map", "area"},
        clean_content_tags=GONE,
        url_schemes=SCHEMES,
        url_relative=resolve,
        link_rel="noopener noreferrer nofollow",
    )
    if len(clean) > 2 * LONGEST_HTML:  # all tags and no text
        return paragraphs(plain_text(text))
    return _storable(clean).strip()


def plain_text(markup: str, longest: int = LONGEST_TEXT) -> str:
    """Return the words of HTML in one line, without markup."""
    breaks = nh3.clean(
        markup[:LONGEST_HTML], tags=BREAKING, attributes={}, clean_content_tags=GONE - BREAKING, link_rel=None
    )
    words = html.unescape(TAG.sub(" ", breaks))
    return BLANKS.sub(" ", CONTROLS.sub("", _storable(words))).strip()[:longest].rstrip()


def plain_title(title: str) -> str:
    """Return a title as plain text. Some feeds put markup into it, whatever they declare."""
    return plain_text(title[: LONGEST_TITLE * 10], LONGEST_TITLE)


def paragraphs(text: str) -> str:
    """Return plain text as HTML."""
    return "".join(f"<p>{html.escape(part)}</p>" for part in re.split(r"\n\s*\n", text[:LONGEST_TEXT]) if part.strip())


def first_image(sanitised_html: str) -> str | None:
    found = IMAGE.search(sanitised_html)
    return html.unescape(found[1]) if found else None


def _storable(text: str) -> str:
    return str(storable(text))
