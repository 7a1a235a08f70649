"""Labels of fields."""

import random
import tomllib
from pathlib import Path

LABELS: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads(
    (Path(__file__).parent / "wording.toml").read_text("utf-8")
)
UNSEEN = 0.25


class Words:
    """The wording of one paper: one name per thing."""

    def __init__(self, chance: random.Random, language: str, *, held_out: bool) -> None:
        self.chance, self.entries, self.held_out = chance, LABELS[language], held_out
        self.unseen: set[str] = set()
        """The things whose names do not occur in the tuned part."""
        self.chosen: dict[str, str] = {}

    def __call__(self, key: str) -> str:
        if key not in self.chosen:
            entry = self.entries[key]
            words = entry["seen"]
            if entry["unseen"] and self.held_out and self.chance.random() < UNSEEN:
                words = entry["unseen"]
                self.unseen.add(key)
            self.chosen[key] = self.chance.choice(words)
        return self.chosen[key]
