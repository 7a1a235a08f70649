"""Links between the pages lead somewhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links to them are written."""
    heads = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken(page: Path) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.name}: there is no {link}"
        elif anchor and anchor not in anchors(target):
            yield f"{page.name}: {path or page.name} has no heading {anchor}"


def test_every_link_leads_to_a_page_and_a_heading_that_are_there() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [problem for page in pages for problem in broken(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[here](#one-thing) [no page](nowhere.md) [no heading](#another)")
    assert len(list(broken(page))) == 2


def test_every_guide_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs" / "guides").glob("*.md") if f"guides/{page.name}" not in readme] == []


def test_the_links_of_the_package_are_addresses_and_its_pages_are_in_its_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert all(url.startswith("https://") for url in project["project"].get("urls", {}).values())
    assert {"docs", "CHANGELOG.md", "README.md"} <= set(
        project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    )
