"""Tests by name, as the documentation refers to them."""

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def all_tests(file: Path) -> dict[str, str]:
    """Return each test of a file with its docstring."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.parse(file.read_text()).body if isinstance(node, functions)]
    return {node.name: ast.get_docstring(node) or "" for node in nodes if node.name.startswith("test_")}


def named_in(text: str) -> list[tuple[str, str]]:
    """Return file and name of each test in a text, as in `tests/a.py::test_b`, `::test_c`."""
    found: list[tuple[str, str]] = []
    for file, test in re.findall(r"`((?:systems/)?tests/[\w/]+\.py)?::(test_\w+)`", text):
        found.append((file or found[-1][0], test))
    return found
