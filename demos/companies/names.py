"""Companies, and the names that people write for them."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rowmill_systems.companies.temp_ids import normalize_for_temp_id

FIRST = (
    "Northwind", "Aurora", "Vertex", "Harbour", "Solstice", "Granite", "Meridian", "Cobalt", "Juniper",
    "Falcon", "Ember", "Lattice", "Orchid", "Quarry", "Beacon", "Cedar", "Delta", "Everest", "Fjord",
    "Glacier", "Helios", "Indigo", "Jasper", "Kestrel", "Lumen", "Marlin", "Nimbus", "Onyx", "Prairie",
    "Quartz", "Ridge", "Sable", "Tundra", "Umbra", "Valley", "Willow", "Zenith", "Alder", "Birch", "Cypress",
)  # fmt: skip
SECOND = (
    "Logistics", "Foods", "Pharma", "Textiles", "Robotics", "Shipping", "Insurance", "Mining", "Energy",
    "Optics", "Packaging", "Ceramics", "Timber", "Motors", "Airlines", "Chemicals", "Software", "Seeds",
    "Steel", "Dairy",
)  # fmt: skip
FORMS = ("Ltd", "GmbH", "AG", "S.A.", "Inc.", "B.V.", "S.p.A.", "A/S", "Oy", "Pty Ltd")
REGIONS = (
    "北京", "上海", "深圳", "广州", "杭州", "成都", "武汉", "南京", "西安", "重庆",
)  # fmt: skip
CHINESE = (
    "华兴", "天元", "宏达", "金科", "瑞丰", "海纳", "云帆", "东方", "恒通", "明远", "博雅", "盛世",
    "中锐", "和泰", "嘉禾", "启明", "新禾",
    "长青", "锦程", "万象",
)  # fmt: skip
TRADES = (
    "科技", "贸易", "医药", "物流", "建材", "食品", "电子", "能源", "纺织", "汽车",
)  # fmt: skip
CHINESE_FORMS = ("有限公司", "股份有限公司")
MEANINGLESS = ("", "  ", "-", "N/A", "无")
"""Names that name nothing."""


@dataclass(frozen=True, slots=True)
class MadeCompany:
    """A company, and what the service calls it."""

    company_id: str
    name: str
    known: bool
    """Whether the service knows it."""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A row of the pipeline: a name as somebody wrote it, and the company that is meant."""

    name: str
    company: MadeCompany | None


def make_companies(number: int, unknown_share: float = 0.04) -> list[MadeCompany]:
    """Return companies with names of which no two are the same. The same number gives the same companies."""
    chance = random.Random(number)
    names = list(itertools.islice(_names(chance), number))
    return [
        MadeCompany(f"{600_000_000 + place}", name, chance.random() >= unknown_share)
        for place, name in enumerate(names)
    ]


def make_rows(companies: list[MadeCompany], distinct: int, number: int) -> list[PipelineRow]:
    """Return rows with so many distinct names: each company in one or more ways that people write it."""
    chance = random.Random(distinct)
    written: dict[str, MadeCompany] = {company.name: company for company in companies}
    while len(written) < distinct:
        company = chance.choice(companies)
        written.setdefault(_written(company.name, chance), company)
    rows = [PipelineRow(name, company) for name, company in written.items()]
    blank = [PipelineRow(name, None) for name in MEANINGLESS]
    rows += chance.choices(rows, k=number - len(rows) - len(blank))
    rows += blank
    chance.shuffle(rows)
    return rows


def _names(chance: random.Random) -> Iterator[str]:
    latin = list(itertools.product(FIRST, SECOND, FORMS))
    chinese = list(itertools.product(REGIONS, CHINESE, TRADES, CHINESE_FORMS))
    chance.shuffle(latin)
    chance.shuffle(chinese)
    seen = set()
    both = itertools.chain.from_iterable(
        zip(
            (f"{first} {second} {form}" for first, second, form in latin),
            ("".join(parts) for parts in chinese),
            strict=False,
        )
    )
    for name in both:
        # The normal form is what makes two names the same.
        core = normalize_for_temp_id(name)
        if core and core not in seen:
            seen.add(core)
            yield name


def _written(name: str, chance: random.Random) -> str:
    """Return a name as somebody else would write it."""
    for change in chance.sample(CHANGES, k=2):
        name = change(name)
    return name


CHANGES: list[Callable[[str], str]] = [
    str.upper,
    str.lower,
    lambda name: f"  {name} ",
    lambda name: name.replace(" ", "  "),
    lambda name: name.replace(" ", "\u3000"),
    lambda name: name.replace(".", ""),
    lambda name: name.replace("Ltd", "Limited"),
    lambda name: name.translate({ord(letter): ord(letter) + 0xFEE0 for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}),
]
