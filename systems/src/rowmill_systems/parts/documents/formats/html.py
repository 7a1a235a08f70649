"""HTML: the text that a browser shows, tables row by row.

Read as a stream of tags, not as a tree, so that depth does not matter.
"""

from html.parser import HTMLParser

from rowmill_systems.parts.documents.reading import Contents, ReadingState, known, plain_lines
from rowmill_systems.parts.texts import declared_charset, decode

HIDDEN = frozenset({"script", "style", "template", "noscript", "svg", "math", "object", "iframe", "select", "textarea"})
BREAKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "br",
        "caption",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "nav",
        "ol",
        "option",
        "p",
        "pre",
        "section",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "title",
        "tr",
        "ul",
    ]
)
FOLDED = frozenset({"div", "span", "section", "table"})
"""Tags that may hide their contents. Others may lack an end tag, so that hiding would never end."""
CELLS = frozenset({"td", "th"})
META = 4096


def _folded(said: dict[str, str | None]) -> bool:
    return "hidden" in said or "display:none" in (said.get("style") or "").replace(" ", "").lower()


class _Visible(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self.title = ""
        self._parts: list[str] = []
        self._cells: list[str] | None = None
        self._hidden: list[str] = []
        self._titling = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.append(tag)
            return
        if tag in HIDDEN or (tag in FOLDED and _folded(said)):
            self._hidden.append(tag)
        elif tag == "input":
            if said.get("type", "text") in ("text", "email", "number", "date", "tel", "url"):
                self._parts.append(f" {said.get('value') or ''} ")
        elif tag == "tr":
            self._end_line()
            self._cells = []
        elif tag in CELLS:
            self._end_cell()
        elif tag in BREAKS:
            self._break()
        self._titling = tag == "title"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in HIDDEN:  # <script/> hides nothing behind it in XHTML
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
        elif tag in CELLS:
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_line()
        elif tag in BREAKS:
            self._break()
        self._titling = False

    def handle_data(self, data: str) -> None:
        if self._titling:
            self.title += data
        elif not self._hidden:
            self._parts.append(data)

    def close(self) -> None:
        super().close()
        self._end_line()

    def _take(self) -> str:
        text, self._parts = " ".join("".join(self._parts).split()), []
        return text

    def _break(self) -> None:
        """End the line; inside a cell, add a space, so that a row stays on one line."""
        if self._cells is None:
            self._end_line()
        else:
            self._parts.append(" ")

    def _end_cell(self) -> None:
        if self._cells is not None and (text := self._take()):
            self._cells.append(text)

    def _end_line(self) -> None:
        rest, cells = self._take(), self._cells or []
        self.lines.append("\t".join([*cells, rest] if rest else cells))
        self._cells = None


def visible(text: str) -> tuple[list[str], str]:
    """Return the lines of a page, and its title."""
    parser = _Visible()
    parser.feed(text)
    parser.close()
    return parser.lines, " ".join(parser.title.split())


def decode_html(file_bytes: bytes) -> str:
    return decode(file_bytes, declared_charset(file_bytes[:META].decode("latin-1")))


def read(file_bytes: bytes, reading: ReadingState) -> Contents:
    reading.progress(1, 1)
    lines, title = visible(decode_html(file_bytes))
    return Contents((reading.page(1, plain_lines(lines)),), known({"title": title}))
