"""How many names of companies a second are normalised, beside cleanco?

    python -m bench.company_names [--names 200000]

Every name is another one, and nothing is remembered between calls. Each measurement is the best of three, in turns, so
that other work on the machine hits both.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from importlib import import_module

from rowmill_systems.parts.names.companies import analyze_company, compare_companies, normalize_company

SEED = 16
ROUNDS = 3
WORDS = [
    "Acme",
    "Northwind",
    "Contoso",
    "Fabrikam",
    "Meridian",
    "Orion",
    "Vector",
    "Atlas",
    "Phoenix",
    "Sterling",
    "Summit",
    "Harbor",
    "Keystone",
    "Pinnacle",
    "Quantum",
    "Zenith",
    "Aurora",
    "Beacon",
    "Cascade",
    "Delta",
    "Everest",
    "Falcon",
    "Granite",
    "Horizon",
    "Juniper",
]
TRADES = [
    "Trading",
    "Logistics",
    "Steel",
    "Foods",
    "Energy",
    "Capital",
    "Systems",
    "Engineering",
    "Pharma",
    "Textiles",
    "Shipping",
    "Media",
]
FORMS = (
    "Ltd.",
    "Limited",
    "GmbH & Co. KG",
    "S.A.",
    "Inc.",
    "Corporation",
    "AG",
    "Pvt. Ltd.",
    "s.r.o.",
    "LLC",
    "B.V.",
    "",
)
ACCENTED = ("Müller", "Société", "Højgaard", "Şahin", "Łódź", "Española")
HAN = "华为信息技术网络科技发展实业贸易投资金龙宏达天成新东方恒泰"
CITIES = ("北京", "上海", "深圳市", "广东省", "")
HAN_FORMS = ("有限公司", "有限责任公司", "股份有限公司", "（中国）有限公司", "集团有限公司")
CYRILLIC = ("Север", "Ромашка", "Вектор", "Стройсервис", "Альфа", "Горизонт")
CYRILLIC_FORMS = ("ООО «{}»", "АО «{}»", "{}, ПАО", "Общество с ограниченной ответственностью «{}»")


def latin_names(number: int) -> list[str]:
    chance = random.Random(SEED)
    return [
        f"{chance.choice(WORDS)} {chance.choice(WORDS)}{place} {chance.choice(TRADES)} {chance.choice(FORMS)}".strip()
        for place in range(number)
    ]


def accented_names(number: int) -> list[str]:
    chance = random.Random(SEED)
    return [
        f"{chance.choice(ACCENTED)} {chance.choice(WORDS)}{place} {chance.choice(FORMS)}" for place in range(number)
    ]


def chinese_names(number: int) -> list[str]:
    chance = random.Random(SEED)
    return [
        chance.choice(CITIES) + "".join(chance.sample(HAN, 4)) + f"{place}" + chance.choice(HAN_FORMS)
        for place in range(number)
    ]


def cyrillic_names(number: int) -> list[str]:
    chance = random.Random(SEED)
    return [chance.choice(CYRILLIC_FORMS).format(f"{chance.choice(CYRILLIC)} {place}") for place in range(number)]


def rate(function: Callable[[str], object], names: Sequence[str]) -> float:
    """Return calls a second."""
    began = time.perf_counter()
    for name in names:
        function(name)
    return len(names) / (time.perf_counter() - began)


def pairs_a_second(names: Sequence[str]) -> float:
    """Return comparisons a second of names that were never seen."""
    analyze_company.cache_clear()
    began = time.perf_counter()
    for one, other in zip(names[::2], names[1::2], strict=False):
        compare_companies(one, other)
    return len(names) / 2 / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=int, default=200_000, help="how many names of each script (200,000)")
    number = parser.parse_args().names
    basename: Callable[[str], object] | None = None
    try:
        basename = import_module("cleanco").basename
    except ImportError:
        print("cleanco is not installed: only Rowmill is measured. Run: pip install cleanco\n")
    print("| names | normalised a second | cleanco | ratio | comparisons a second |\n| --- | --- | --- | --- | --- |")
    for script, make in (
        ("Latin, ASCII", latin_names),
        ("Latin, with accents", accented_names),
        ("Chinese", chinese_names),
        ("Cyrillic", cyrillic_names),
    ):
        names = make(number)
        normalize_company(names[0])
        ours, theirs = 0.0, 0.0
        for _ in range(ROUNDS):
            ours = max(ours, rate(normalize_company, names))
            theirs = max(theirs, rate(basename, names[: number // 10])) if basename else 0.0
        beside = f"{theirs:,.0f} | {ours / theirs:.1f}" if theirs else "not installed | "
        compared = pairs_a_second(names[: number // 10])
        print(f"| {script} | {ours:,.0f} | {beside} | {compared:,.0f} |")


if __name__ == "__main__":
    main()
