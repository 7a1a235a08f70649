"""The word lists of the rules."""

import tomllib
from importlib import resources
from typing import Any

_WORDS: dict[str, Any] = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))


def words(kind: str) -> list[str]:
    found: list[str] = _WORDS[kind]
    return found


def symbols() -> dict[str, str]:
    """Signs of currencies, and their codes."""
    found: dict[str, str] = _WORDS["symbols"]
    return found
