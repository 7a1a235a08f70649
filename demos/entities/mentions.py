"""Mentions of things of the world as people write them, with the right answers."""

import random
from dataclasses import dataclass

from demos.entities.world import SHARES, WORDS, World
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType

UNKNOWN = 0.15
ENDINGS = ("sen", "berg", "ová", "ini")


@dataclass(frozen=True, slots=True)
class Made:
    """A mention, and the id of its thing; None if it is not in the world."""

    mention: Mention
    right: str | None


def make_mentions(world: World, count: int, seed: int = 1) -> list[Made]:
    chance = random.Random(seed)
    known = [each for each in world.things.values() if each.types & set(SHARES)]
    return [
        _unknown(world, chance) if chance.random() < UNKNOWN else _of(chance.choice(known), chance)
        for _ in range(count)
    ]


def _of(thing: Thing, chance: random.Random) -> Made:
    """Write a thing's name or alias, sometimes with a typing error. The context tells namesakes apart."""
    name = thing.name
    written = chance.choices(("name", "alias", "lower", "typo"), (0.6, 0.2, 0.1, 0.1))[0]
    if written == "alias" and thing.aliases:
        name = chance.choice(thing.aliases)
    elif written == "lower":
        name = name.lower()
    elif written == "typo" and len(name) > 6:
        place = chance.randrange(2, len(name) - 2)
        name = name[:place] + name[place + 1 :]
    values = [value for values in thing.properties.values() for value in values if isinstance(value, dict)]
    context = f"{name}, {thing.description}: {', '.join(value['label'] for value in values if 'label' in value)}."
    known = {key: values[0] for key, values in thing.properties.items() if isinstance(values[0], str)}
    return Made(Mention(name, next(iter(thing.types)), context, known if chance.random() < 0.7 else {}), thing.id)


def _unknown(world: World, chance: random.Random) -> Made:
    """Make up a person that no knowledge base has."""
    name = f"{chance.choice(WORDS['first'])} {chance.choice(WORDS['last'])}{chance.choice(ENDINGS)}"
    return Made(Mention(name, EntityType.PERSON, f"{name} was there, too."), None)
