"""Files that knowledge bases are made of."""

import json
from pathlib import Path
from typing import Any

from rowmill_systems.entities.kb.base import SqliteKnowledgeBase, open_knowledge_base
from rowmill_systems.entities.kb.build import build


def written(folder: Path, *things: dict[str, Any]) -> Path:
    source = folder / "things.jsonl"
    source.write_text("".join(json.dumps(thing) + "\n" for thing in things), "utf-8")
    return source


def built(folder: Path, *things: dict[str, Any]) -> SqliteKnowledgeBase:
    target = folder / "things.kb"
    build(written(folder, *things), target)
    return open_knowledge_base(target)
