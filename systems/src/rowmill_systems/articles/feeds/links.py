"""Links of articles: absolute, of the web, and without the marks of those who count clicks."""

import re
from urllib.parse import urljoin, urlsplit, urlunsplit

LONGEST_LINK = 2000
TRACKING = re.compile(
    r"utm_\w+|at_(?:medium|campaign|custom\d|link_\w+|bbc_team|ptr_\w+)|mc_[ce]id|_hs(?:enc|mi)|hsctatracking|mkt_tok"
    r"|(?:fb|g|dc|y|tt|tw)clid|gclsrc|gbraid|wbraid|msclkid|igshid|igsh|wt_?mc|ns_(?:campaign|mchannel|source|linkname)"
    r"|_ga|_gl|cmpid|pk_(?:campaign|kwd|source|medium)|mtm_\w+|piwik_\w+|vero_(?:id|conv)|oly_(?:anon|enc)_id|ref_src",
    re.IGNORECASE,
)
"""Names of parameters that say where a click came from, and nothing about the page."""
USUAL_PORTS = {"http": ":80", "https": ":443"}
BLANKS = re.compile(r"[\t\r\n]")


def absolute_link(link: object, base: str | None) -> str | None:
    """Return a link of the web, resolved against `base`. None for anything else, such as javascript: and mailto:."""
    if not isinstance(link, str):
        return None
    text = BLANKS.sub("", link.strip())
    try:
        joined = urljoin(base or "", text)
        parts = urlsplit(joined)
        parts.port  # noqa: B018  a port that is none raises here
    except ValueError:
        return None
    usable = parts.scheme in USUAL_PORTS and parts.hostname and text and len(joined) <= LONGEST_LINK
    return joined.replace(" ", "%20") if usable else None


def canonical_link(link: object, base: str | None = None) -> str | None:
    """Return a link in the form that identifies an article.

    Host in lower case, no usual port, no tracking parameters. The fragment stays: logs of changes have one page, and an
    article for each of its anchors.
    """
    found = absolute_link(link, base)
    if found is None:
        return None
    parts = urlsplit(found)
    user, at, host = parts.netloc.rpartition("@")
    host = host.lower().removesuffix(USUAL_PORTS[parts.scheme])
    query = "&".join(each for each in parts.query.split("&") if not TRACKING.fullmatch(each.partition("=")[0]))
    fragment = "" if TRACKING.match(parts.fragment) else parts.fragment
    return urlunsplit((parts.scheme, f"{user}{at}{host}", parts.path or "/", query, fragment))
