"""Read a page as strictly as no browser does."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br", "hr", "path", "rect", "circle", "line"}
LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("form", "action"), ("iframe", "src")}
"""What a browser loads, or sends to, without a click."""


@dataclass
class Tag:
    name: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class ReadPage:
    """A page: its tags in order, and what is wrong with it."""

    tags: list[Tag] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def all(self, tag: str, /, **attributes: str) -> list[Tag]:
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [each for each in self.tags if each.name == tag and wanted.items() <= each.attributes.items()]

    def links(self) -> list[str]:
        return [tag.attributes["href"] for tag in self.tags if tag.name == "a" and "href" in tag.attributes]


class StrictParser(HTMLParser):
    """Notes tags that are not closed in order, ids and attributes that are there twice, and what runs or loads."""

    def __init__(self) -> None:
        super().__init__()
        self.page, self.open = ReadPage(), list[Tag]()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        read = Tag(tag, given)
        self.page.tags.append(read)
        fault = self.page.faults.append
        if len(given) < len(attrs):
            fault(f"<{tag}> has an attribute twice: {attrs}")
        if given.get("id") in self.ids:
            fault(f"the id {given['id']} is there twice")
        self.ids.add(given.get("id", ""))
        self.ids.discard("")
        if tag == "style" or "style" in given or any(name.startswith("on") for name in given):
            fault(f"<{tag}> has a style or a script inline: {given}")
        for name, value in given.items():
            if (tag, name) in LOADING and re.match(r"(\w+:)?//|\w+:", value):
                fault(f"<{tag}> loads {value}")
        if tag == "a" and re.match(r"(?!https?:)\w+:", given.get("href", "")):
            fault(f"a link to {given['href']}")
        if tag not in VOID:
            self.open.append(read)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open[-1].name != tag:
            self.page.faults.append(
                f"</{tag}> closes {self.open[-1].name if self.open else 'nothing'} at {self.getpos()}"
            )
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            tag.text += data
        if self.open and self.open[-1].name == "script" and data.strip():
            self.page.faults.append("a script inline")


def read_page(text: str) -> ReadPage:
    """Read a page, and assert that it is well formed, runs nothing inline and loads nothing from elsewhere."""
    parser = StrictParser()
    parser.feed(text)
    parser.close()
    parser.page.faults += [f"<{tag.name}> is not closed" for tag in parser.open]
    assert parser.page.faults == []
    return parser.page
