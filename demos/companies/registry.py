"""Companies that a server knows, and a search by the letters of their names."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from rowmill_systems.parts.names.folding import folded


@dataclass(frozen=True, slots=True)
class RegisteredCompany:
    company_id: str
    name: str
    former_name: str = ""
    register_number: str = ""


class CompanyRegistry:
    """Finds companies as search engines do: by similar names, and nothing says which one is meant."""

    def __init__(self, companies: Iterable[RegisteredCompany]) -> None:
        self.companies = list(companies)
        self._by_pair: defaultdict[str, set[int]] = defaultdict(set)
        for place, company in enumerate(self.companies):
            for pair in _pairs(f"{company.name} {company.former_name}"):
                self._by_pair[pair].add(place)

    def search(self, name: str, most: int = 10) -> list[tuple[float, RegisteredCompany]]:
        """Return companies with a score from 0 to 1, the best first."""
        wanted = _pairs(name)
        shared = Counter[int]()
        for pair in wanted:
            places = self._by_pair.get(pair, set())
            if len(places) <= 2_000:  # pairs of legal forms are in all of them
                shared.update(places)
        found = [(self._score(wanted, place), place) for place, _ in shared.most_common(50)]
        found.sort(key=lambda each: (-each[0], each[1]))
        return [(score, self.companies[place]) for score, place in found[:most] if score >= 0.4]

    def _score(self, wanted: set[str], place: int) -> float:
        company = self.companies[place]
        names = [_pairs(each) for each in (company.name, company.former_name) if each]
        return max(2 * len(wanted & pairs) / max(len(wanted) + len(pairs), 1) for pairs in names)


def _pairs(name: str) -> set[str]:
    text = folded(name).replace(" ", "")
    return {text[place : place + 2] for place in range(len(text) - 1)}
