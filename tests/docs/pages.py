"""The Python in a page of documentation."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PRELUDES = Path(__file__).parent / "preludes"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


HAVE_OWN_TESTS = {"start.md", "celery.md", "companies.md", "dagster.md", "django.md", "fastapi.md", "web.md"}
"""Their snippets need a database or a package around them: tests of their own run them."""


def pages_with_python() -> list[str]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    chosen = (page for page in pages if page.name not in HAVE_OWN_TESTS)
    return [str(page.relative_to(ROOT)) for page in chosen if BLOCK.search(page.read_text())]


def run_page(name: str) -> dict[str, Any]:
    """What a page's snippets define, run one after another; a prelude supplies what the reader has at home."""
    namespace: dict[str, Any] = {"__name__": f"docs.{Path(name).stem}"}
    prelude = PRELUDES / f"{Path(name).stem.replace('-', '_').lower()}.py"
    if prelude.exists():
        exec(compile(prelude.read_text(), str(prelude), "exec"), namespace)
    text = (ROOT / name).read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[1], name, "exec"), namespace)
    return namespace


def block_of(name: str, language: str) -> str:
    """The first block of a page in another language."""
    found = re.search(rf"^```{language}\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"{name} has no block of {language}"
    return found[1]
