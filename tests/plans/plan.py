"""What EXPLAIN (ANALYZE, BUFFERS) said of a statement."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Plan:
    root: dict[str, Any]

    def nodes(self, node: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        node = self.root if node is None else node
        yield node
        for part in node.get("Plans", ()):
            yield from self.nodes(part)

    @property
    def buffers(self) -> int:
        """Pages that were looked at, in memory or on disk."""
        return int(self.root["Shared Hit Blocks"]) + int(self.root["Shared Read Blocks"])

    def reads(self, table: str) -> set[str]:
        """How a table is read: by the names of indexes, or by the kind of scan without one."""
        found = set()
        for node in self.nodes():
            kind = node["Node Type"]
            if node.get("Relation Name") == table and kind.endswith("Scan"):
                found.add(node.get("Index Name", kind))
            elif kind == "Bitmap Index Scan":
                found.add(f"bitmap of {node['Index Name']}")
        return found

    @property
    def sorted_rows(self) -> int:
        """The most rows that are put into one sort."""
        sources = [node["Plans"][0] for node in self.nodes() if "Sort" in node["Node Type"]]
        return max((int(source["Actual Rows"] * source["Actual Loops"]) for source in sources), default=0)

    def __str__(self) -> str:
        wanted = ("Node Type", "Relation Name", "Index Name", "Actual Rows", "Actual Loops", "Shared Hit Blocks")
        return "\n".join(", ".join(f"{node[key]}" for key in wanted if key in node) for node in self.nodes())
