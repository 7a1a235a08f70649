"""Names, goods and sentences by language or country."""

import tomllib
from pathlib import Path
from typing import Any

_WORLD: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "world.toml").read_text("utf-8"))


def words(what: str, where: str) -> list[str]:
    found: list[str] = _WORLD[what][where]
    return found


def text(what: str, where: str) -> str:
    found: str = _WORLD[what][where]
    return found
