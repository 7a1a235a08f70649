"""A class name means one class, in the engine and in the systems."""

import ast
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCES = (REPOSITORY / "src", REPOSITORY / "systems" / "src")


def test_no_class_name_is_defined_twice() -> None:
    """Two classes may share a name only if they implement one interface; none do."""
    places = defaultdict(list)
    for file in (file for source in SOURCES for file in source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(REPOSITORY)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
