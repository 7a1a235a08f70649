"""docs/requirements.md points at tests that are there, and at all that name an id."""

import ast
import re

from tests.support.named import REPOSITORY, all_tests, named_in

PAGE = REPOSITORY / "docs" / "requirements.md"
TESTS = REPOSITORY / "systems" / "tests" / "test_tables.py"
PARTS = (
    "tests/conformance", "tests/outbox", "systems/tests/articles", "systems/tests/companies", "systems/tests/entities",
    "systems/tests/intake", "systems/tests/knowledge", "systems/tests/parts",
)  # fmt: skip
"""Tests of a system, and of what one is built on: some of them prove a requirement."""
ID = re.compile(r"\b[CAFEK]\d+\b")


def page() -> dict[str, set[str]]:
    """Each id with the tests that its line names."""
    found = {}
    for line in PAGE.read_text().splitlines():
        match = re.match(r"\| ([CAFEK]\d+) \|", line)
        if match:
            found[match[1]] = {test for _, test in named_in(line)}
    return found


def proofs() -> dict[str, set[str]]:
    """Each test of the five tables, and each of a part that names any, with the ids at the start of its docstring and
    of its file's."""
    found = {test: identifiers_in(about) for test, about in all_tests(TESTS).items()}
    for file in sorted(path for part in PARTS for path in (REPOSITORY / part).rglob("test_*.py")):
        of_all = identifiers_in(ast.get_docstring(ast.parse(file.read_text())) or "")
        about = {test: of_all | identifiers_in(text) for test, text in all_tests(file).items()}
        found |= {test: found.get(test, set()) | identifiers for test, identifiers in about.items() if identifiers}
    return found


def identifiers_in(docstring: str) -> set[str]:
    """Those before its first colon."""
    return set(ID.findall(docstring.partition(":")[0]))


def test_every_test_that_is_named_is_there_and_proves_it() -> None:
    tests = proofs()
    for identifier, named in page().items():
        for test in named:
            assert identifier in tests.get(test, set()), f"{test} does not prove {identifier}"


def test_every_proof_is_on_the_page() -> None:
    lines = page()
    for test, identifiers in proofs().items():
        assert identifiers, f"{test} does not say what it proves"
        for identifier in identifiers:
            assert lines[identifier], f"{identifier} is proved by {test}, but the page says: not yet"
