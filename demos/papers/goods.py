"""What is sold, and for how much."""

import random
from dataclasses import dataclass
from decimal import Decimal

GOODS = {
    "de": ("Bohrer 8 mm", "Schreibtisch Eiche", "Wartung Heizanlage", "Druckerpapier A4", "Beratung vor Ort", "Kabelkanal weiß", "Lizenz Büropaket", "Schraubensatz verzinkt"),
    "fr": ("Papier A4 recyclé", "Table en chêne", "Maintenance annuelle", "Câble réseau", "Formation sur site", "Lampe de bureau", "Licence logicielle"),
    "es": ("Papel A4", "Mesa de roble", "Mantenimiento anual", "Cable de red", "Formación en obra", "Lámpara de mesa", "Tornillos galvanizados"),
    "it": ("Carta A4 riciclata", "Tavolo in rovere", "Manutenzione annuale", "Cavo di rete", "Formazione in sede", "Lampada da tavolo", "Viti zincate"),
    "en": ("Oak desk", "Copy paper A4", "Annual maintenance", "Network cable", "On-site training", "Desk lamp", "Software licence", "Galvanised screws"),
    "zh": ("办公桌", "打印纸", "设备维护", "网络电缆", "台灯", "软件许可"),
}  # fmt: skip
DETAILS = {
    "de": "Farbe grau, inkl. Montage", "fr": "coloris gris, pose comprise", "es": "color gris, con montaje",
    "it": "colore grigio, montaggio incluso", "en": "grey finish, fitted on site", "zh": "灰色，含安装",
}  # fmt: skip
RATES = {"DE": "19", "CH": "8.1", "FR": "20", "ES": "21", "IT": "22", "GB": "20", "US": "8.25", "CN": "13"}


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
    names = chance.sample(GOODS[language], chance.randint(2, 5))
    items = [
        Item(name, DETAILS[language] if chance.random() < 0.25 else "", chance.randint(1, 24), Decimal(chance.randint(250, 98000)) / 100)
        for name in names
    ]  # fmt: skip
    return Basket(items, Decimal(RATES[country]))
