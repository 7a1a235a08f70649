"""What is sold, and for how much."""

import random
from dataclasses import dataclass
from decimal import Decimal

from demos.papers.world import text, words


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    detail: str
    quantity: int
    price: Decimal

    @property
    def total(self) -> Decimal:
        return self.quantity * self.price


@dataclass(frozen=True, slots=True)
class Basket:
    items: list[Item]
    rate: Decimal

    @property
    def net(self) -> Decimal:
        return sum((item.total for item in self.items), Decimal(0))

    @property
    def tax(self) -> Decimal:
        return (self.net * self.rate / 100).quantize(Decimal("0.01"))

    @property
    def total(self) -> Decimal:
        return self.net + self.tax


def basket(chance: random.Random, language: str, country: str) -> Basket:
    items = []
    for name in chance.sample(words("goods", language), chance.randint(2, 5)):
        detail = text("details", language) if chance.random() < 0.25 else ""
        items.append(Item(name, detail, chance.randint(1, 24), Decimal(chance.randint(250, 98000)) / 100))
    return Basket(items, Decimal(text("rates", country)))
