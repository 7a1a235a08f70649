"""Each part begins with an example, and the examples run."""

import ast
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import rowmill as rm
from demos.entities.server import Server
from rowmill_systems import parts
from systems.tests.model_server import model_server

PARTS = [f"{parts.__name__}.{each.name}" for each in iter_modules(parts.__path__) if each.ispkg]
PARTS += [f"{parts.__name__}.identifiers"]


def example_of(module: str) -> str:
    """Return the indented lines of a module's docstring."""
    text = import_module(module).__doc__ or ""
    found = re.search(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, re.MULTILINE)
    return textwrap.dedent(found[0]) if found else ""


@asynccontextmanager
async def given(module: str, server: Server, sqlite_url: str, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """Yield the names that examples use without defining them: a mill, a server's address, a folder."""
    mill = rm.Mill(sqlite_url)
    async with mill.opened(), model_server() as models:
        await mill.migrate()
        address = models.url if module.endswith(".models") else server.settings["wikidata_url"]
        yield {"mill": mill, "address": address, "folder": str(tmp_path / "files")}


@pytest.mark.parametrize("module", PARTS, ids=[name.rpartition(".")[2] for name in PARTS])
async def test_the_example_of_a_part_runs(module: str, server: Server, sqlite_url: str, tmp_path: Path) -> None:
    example = example_of(module)
    assert example, f"{module} begins with an example"
    code = compile(example, module, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with given(module, server, sqlite_url, tmp_path) as names:
        if (running := eval(code, names)) is not None:
            await running


def test_every_part_is_in_the_list() -> None:
    listed = re.findall(r"^\| (\w+) \|", parts.__doc__ or "", re.MULTILINE)
    assert sorted(listed[1:]) == sorted(name.rpartition(".")[2] for name in PARTS)
