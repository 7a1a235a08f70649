"""Fail unless the demo's JSON says that no row was lost and none was applied twice."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path


def values_of(key: str, node: object) -> Iterator[object]:
    if isinstance(node, dict):
        if key in node:
            yield node[key]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from values_of(key, child)


def main(path: str) -> None:
    report = json.loads(Path(path).read_text())
    for key in ("lost", "applied_twice"):
        found = list(values_of(key, report))
        print(f"{key}: {found}")
        if not found or any(value != 0 for value in found):
            sys.exit(f"the demo must say {key}: 0")


if __name__ == "__main__":
    main(sys.argv[1])
