"""Search the world by whole names, by prefixes, and by words."""

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from itertools import islice

from demos.entities.world import World
from rowmill_systems.entities.kb.thing import Thing

WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """Return lower-case text without accents."""
    plain = unicodedata.normalize("NFKD", text.replace("ł", "l").replace("Ł", "L").replace("ø", "o"))
    return "".join(char for char in plain if not unicodedata.combining(char)).casefold()


class Index:
    def __init__(self, world: World) -> None:
        self.world = world

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """Folded names and aliases, sorted, with the ids of their things."""
        things = self.world.things.values()
        return sorted((folded(name), each.id) for each in things for name in (each.name, *each.aliases))

    @cached_property
    def words(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for name, id in self.names:
            for word in WORD.findall(name):
                found[word].add(id)
        return found

    @cached_property
    def pages(self) -> dict[str, Thing]:
        """Things by the name of their Wikipedia page, with underscores."""
        return {
            each.dbpedia_uri.removeprefix("http://dbpedia.org/resource/"): each
            for each in self.world.things.values()
            if each.dbpedia_uri
        }

    def beginning(self, text: str, most: int) -> list[Thing]:
        wanted, found = folded(text), set()
        for name, id in islice(self.names, bisect_left(self.names, (wanted, "")), None):
            if not wanted or not name.startswith(wanted):
                break
            found.add(id)
        return self._ranked(found, most)

    def with_words(self, text: str, most: int) -> list[Thing]:
        """Return things that have all of the words."""
        sets = [self.words.get(word, set()) for word in WORD.findall(folded(text))]
        return self._ranked(set.intersection(*sets) if sets else set(), most)

    def scored(self, text: str, most: int) -> list[tuple[float, Thing]]:
        """Return things that share words, with the shared part from 0 to 100."""
        wanted = set(WORD.findall(folded(text)))
        best: dict[str, float] = {}
        for id in {id for word in wanted for id in self.words.get(word, ())}:
            thing = self.world.things[id]
            names = [set(WORD.findall(folded(name))) for name in (thing.name, *thing.aliases)]
            best[id] = max(len(name & wanted) / len(name | wanted) for name in names if name)
        ranked = sorted(best.items(), key=lambda pair: (-pair[1], -self.world.things[pair[0]].prominence, pair[0]))
        return [(round(100 * score, 1), self.world.things[id]) for id, score in ranked[:most]]

    def _ranked(self, ids: set[str], most: int) -> list[Thing]:
        found = [self.world.things[id] for id in ids]
        return sorted(found, key=lambda each: (-each.prominence, each.id))[:most]
