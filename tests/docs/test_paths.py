"""Files and modules that the pages name are there."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowmill.store.own.schema import own_tables
from tests.docs.pages import ROOT

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
FILE_NAME = re.compile(r"[\w-]+\.(py|md|toml|txt|sql|jsonl|svg|yml|yaml|sh)")
MODULE = re.compile(r"rowmill(_systems)?(\.[A-Za-z_]\w*)+")
ZONE = re.compile(r"[A-Z]\w+/[A-Z]\w+")
FOLDERS = (ROOT, ROOT / "src" / "rowmill", ROOT / "systems" / "src" / "rowmill_systems")
OF_THE_READER = {"manage.py"}
"""Files of an application of the reader's, of a kind that everybody has."""
OWN_TABLES = {f"rowmill.{table.name}" for table in own_tables("postgresql").metadata.tables.values()}
TRACKED = [path for top in ("src", "systems", "tests", "docs", "bench", "faults", "tools", "demos")
           for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]  # fmt: skip


def missing(page: Path) -> Iterator[str]:
    text = page.read_text()
    shown = "\n".join(FENCED.findall(text))
    for name in CODE.findall(FENCED.sub("", text)):
        if MODULE.fullmatch(name) and name not in OWN_TABLES and not is_importable(name):
            yield f"{page.name}: there is no module {name}"
        elif is_path(name) and not exists(name, page) and name.rsplit("/", 1)[-1] not in shown:
            yield f"{page.name}: there is no file {name}"


def is_path(name: str) -> bool:
    if "/" not in name:
        return FILE_NAME.fullmatch(name) is not None and name not in OF_THE_READER
    return FILE.fullmatch(name) is not None and not ZONE.fullmatch(name)


def exists(name: str, page: Path) -> bool:
    """Is it there: from the top, in a package, beside the page, or at the end of the path of some file?"""
    if any((folder / name).exists() for folder in (*FOLDERS, page.parent)):
        return True
    parts = Path(name).parts
    return any(path.parts[-len(parts) :] == parts for path in TRACKED)


def is_importable(name: str) -> bool:
    module, rest = name, list[str]()
    while "." in module:
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
            continue
        for attribute in rest:
            found = getattr(found, attribute, None)
        return found is not None
    return False


PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", ROOT / "faults" / "README.md",
         *sorted((ROOT / "docs").rglob("*.md"))]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_module_that_a_page_names_is_there(page: Path) -> None:
    assert list(missing(page)) == []


def test_a_file_or_module_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`store/postgres/claim.py`, `claim.py`, `rowmill.limits.Rate` and `rowmill.receipt` are there, and so is\n"
        "`mine.py`, which the page shows:\n```python\n# mine.py\n```\n"
        "`store/postgres/claims.py`, `gone.py`, `rowmill.gone` and `rowmill.limits.Gone` are not."
    )
    assert [problem.split()[-1] for problem in missing(page)] == [
        "store/postgres/claims.py", "gone.py", "rowmill.gone", "rowmill.limits.Gone",
    ]  # fmt: skip
