"""Which columns of a file of companies say what."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowmill_systems.companies.providers.port import LONGEST_NAME
from rowmill_systems.parts.sheets import BadSheet, place_of
from rowmill_systems.parts.values import storable

SETTING = "WDH_COMPANIES_COLUMNS"
ID_NAMES = ("company_id", "companyid", "lei", "id", "公司代码", "企业代码", "统一社会信用代码")
NAME_NAMES = ("company_name", "companyname", "companyfullname", "legal_name", "name", "公司名称", "企业名称", "名称")
OTHER_NAMES = ("other_names", "aliases", "alias", "former_name", "former_names", "曾用名", "别名")
SEVERAL_NAMES = "|"
"""Between several names in one cell."""
LONGEST_ID = 100
LONGEST_DETAIL = 200
GLEIF_ID, GLEIF_NAME = "LEI", "Entity.LegalName"
GLEIF_OTHER_NAME = re.compile(
    r"Entity\.(?:OtherEntityNames\.OtherEntityName|TransliteratedOtherEntityNames\.TransliteratedOtherEntityName)\.\d+"
)
GLEIF_DETAILS = {
    "Entity.LegalAddress.FirstAddressLine": "address",
    "Entity.LegalAddress.City": "city",
    "Entity.LegalAddress.Country": "country",
    "Entity.RegistrationAuthority.RegistrationAuthorityEntityID": "register number",
    "Entity.EntityStatus": "status",
}
GLEIF_STATE = "Registration.RegistrationStatus"
GLEIF_VOID = {"DUPLICATE", "ANNULLED"}
"""Registrations that were a mistake: the company has another LEI, or none."""
KEYS = ("id", "name", "other_names", "details")


@dataclass(frozen=True, slots=True)
class FileCompany:
    """A company as a row of the file gives it."""

    company_id: str
    name: str
    other_names: tuple[str, ...]
    details: dict[str, str]


class SkippedRow(Exception):
    """A row that is no company. `reason` is a word for counting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CompanyColumns:
    """Places of the columns in the file."""

    id: int
    name: int
    other_names: tuple[int, ...] = ()
    details: tuple[tuple[int, str], ...] = ()
    """With what each is called."""
    state: int | None = None
    """Of GLEIF: whether the registration is valid."""
    several_names: str | None = SEVERAL_NAMES
    """Splits cells of other names."""

    @property
    def places(self) -> list[int]:
        """Return all places, in order: what has to be read."""
        state = () if self.state is None else (self.state,)
        return sorted({self.id, self.name, *self.other_names, *(place for place, _ in self.details), *state})

    def company(self, cells: Sequence[str]) -> FileCompany:
        """Return the company of a row. Raises SkippedRow."""
        if self.state is not None and cells[self.state].strip() in GLEIF_VOID:
            raise SkippedRow("void")
        company_id, name = _clean(cells[self.id]), _clean(cells[self.name])
        if not company_id or len(company_id) > LONGEST_ID:
            raise SkippedRow("no_id" if not company_id else "long_id")
        if not name or len(name) > LONGEST_NAME:
            raise SkippedRow("no_name" if not name else "long_name")
        others = dict.fromkeys(each for place in self.other_names for each in self._names(cells[place]))
        details = {label: text for place, label in self.details if (text := _clean(cells[place])[:LONGEST_DETAIL])}
        return FileCompany(company_id, name, tuple(other for other in others if other != name), details)

    def _names(self, cell: str) -> Iterator[str]:
        for each in cell.split(self.several_names) if self.several_names else [cell]:
            text = _clean(each)
            if text and len(text) <= LONGEST_NAME:
                yield text


def find_columns(header: Sequence[str], given: Mapping[str, str] | None = None) -> CompanyColumns:
    """Find the columns: those that are `given`; otherwise GLEIF's, or such as are usual.

    `given` has names of columns by "id", "name", "other_names" and "details", the latter two with commas between
    several. Raises BadSheet, which says how to give them.
    """
    if given:
        return _given(header, given)
    if GLEIF_ID in header and GLEIF_NAME in header:
        return _of_gleif(header)
    id, name = _usual(header, ID_NAMES), _usual(header, NAME_NAMES)
    if id is None or name is None:
        missing = " and ".join(word for word, place in (("ids", id), ("names", name)) if place is None)
        raise BadSheet(
            f"no column is known to hold the {missing} of companies. Say which: "
            f'{SETTING}=\'{{"id": "…", "name": "…"}}\'. It has: {_shown(header)}'
        )
    others = tuple(place for place, title in enumerate(header) if title.strip().casefold() in OTHER_NAMES)
    return CompanyColumns(place_of(header, header[id]), place_of(header, header[name]), others)


def _given(header: Sequence[str], given: Mapping[str, str]) -> CompanyColumns:
    if unknown := sorted(set(given) - set(KEYS)):
        raise BadSheet(f"{SETTING} has {', '.join(unknown)}. It may have: {', '.join(KEYS)}")
    if not {"id", "name"} <= set(given):
        raise BadSheet(f'{SETTING} needs both columns: {{"id": "…", "name": "…"}}. The file has: {_shown(header)}')
    details = [place_of(header, column) for column in _several(given, "details")]
    return CompanyColumns(
        place_of(header, given["id"]),
        place_of(header, given["name"]),
        tuple(place_of(header, column) for column in _several(given, "other_names")),
        tuple((place, header[place].strip()) for place in details),
    )


def _of_gleif(header: Sequence[str]) -> CompanyColumns:
    details = [(place, GLEIF_DETAILS[title]) for place, title in enumerate(header) if title in GLEIF_DETAILS]
    return CompanyColumns(
        place_of(header, GLEIF_ID),
        place_of(header, GLEIF_NAME),
        tuple(place for place, title in enumerate(header) if GLEIF_OTHER_NAME.fullmatch(title)),
        tuple(details),
        header.index(GLEIF_STATE) if GLEIF_STATE in header else None,
        None,
    )


def _usual(header: Sequence[str], names: Sequence[str]) -> int | None:
    titles = [title.strip().casefold().replace(" ", "_") for title in header]
    return next((titles.index(name) for name in names if name in titles), None)


def _several(given: Mapping[str, str], key: str) -> list[str]:
    return [column.strip() for column in given.get(key, "").split(",") if column.strip()]


def _shown(header: Sequence[str]) -> str:
    titles = [title.strip()[:40] for title in header[:30]]
    return ", ".join(titles) + (", …" if len(header) > 30 else "")


def _clean(cell: str) -> str:
    # A long cell is not worth cleaning: it is refused for its length.
    return " ".join(str(storable(cell)).split()) if len(cell) <= LONGEST_NAME * 4 else cell
