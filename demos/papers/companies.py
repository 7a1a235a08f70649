"""Fictional companies and people, with everything that is on a letterhead."""

import random
import unicodedata
from dataclasses import dataclass

from demos.papers import numbers
from demos.papers.world import text, words


@dataclass(frozen=True, slots=True)
class Company:
    name: str
    country: str
    street: str
    city: str
    vat: str
    register: str
    iban: str
    bic: str
    email: str
    phone: str
    web: str

    @property
    def lines(self) -> list[str]:
        return [self.city + self.street] if self.country == "CN" else [self.street, self.city]

    @property
    def address(self) -> str:
        return self.city + self.street if self.country == "CN" else f"{self.street}, {self.city}"


def company(chance: random.Random, language: str, country: str) -> Company:
    first, trade = chance.choice(words("first", language)), chance.choice(words("trade", language))
    form = chance.choice(words("forms", country))
    name = f"{first} {trade} {form}"
    if country == "CN":
        name = f"{chance.choice(('上海', '北京', '深圳', '杭州'))}{first}{trade}{form}"
    elif country == "GB" and chance.random() < 0.3:
        name = f"{first} & {chance.choice(words('first', language))} {form}"
    house = chance.randint(2, 180)
    street = chance.choice(words("streets", country))
    street = (
        f"{street}{house}号"
        if country == "CN"
        else f"{house} {street}"
        if country in ("GB", "US", "FR")
        else f"{street} {house}"
    )
    host = f"{_ascii(first)}-{_ascii(trade.split()[0])}" if country != "CN" else f"firm{chance.randint(100, 999)}"
    ending = {"DE": "de", "CH": "ch", "FR": "fr", "ES": "es", "IT": "it", "GB": "co.uk", "US": "com", "CN": "cn"}[
        country
    ]
    web = f"{host}.example.{ending}" if chance.random() < 0.2 else f"{host}.{ending}"
    phone = f"{text('dials', country)} {chance.randint(2000, 9999)} {chance.randint(100, 9999)}"
    money = country in ("DE", "CH", "FR", "ES", "IT", "GB")
    return Company(
        name, country, street, chance.choice(words("cities", country)),
        vat=numbers.VAT[country](chance) if country in numbers.VAT else "",
        register=_register(chance, country),
        iban=numbers.iban(chance, country) if money else "", bic=numbers.bic(chance, country) if money else "",
        email=f"{chance.choice(('info', 'office', 'accounts', 'contact'))}@{web}", phone=phone, web=f"www.{web}",
    )  # fmt: skip


def _register(chance: random.Random, country: str) -> str:
    if country == "DE":
        return f"HRB {chance.randint(1000, 199999)}"
    if country == "GB":
        return f"0{chance.randint(1000000, 9999999)}"
    if country == "FR":
        siren = f"{chance.randint(300, 899)} {chance.randint(100, 999)} {chance.randint(100, 999)}"
        return f"RCS {chance.choice(('Paris', 'Lyon', 'Nantes'))} {siren}"
    return ""


def _ascii(word: str) -> str:
    bare = unicodedata.normalize("NFKD", word.replace("ü", "ue").replace("ö", "oe"))
    return "".join(sign for sign in bare if sign.isascii() and sign.isalnum()).lower()
