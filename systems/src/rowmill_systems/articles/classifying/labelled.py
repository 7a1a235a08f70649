"""Read articles with labels from a CSV file, whatever its columns are called."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.taxonomy import Taxonomy, plain_name
from rowmill_systems.parts.sheets import BadSheet, Sheet, place_of
from rowmill_systems.parts.sheets.opening import delimiter_of, opened

SEPARATORS = ";|"
LABEL_NAMES = (
    "label",
    "labels",
    "category",
    "class",
    "topic",
    "topics",
    "section",
    "class index",
    "target",
    "kategorie",
)
TITLE_NAMES = ("title", "headline", "headlines", "subject", "titel", "titre")
TEXT_NAMES = ("description", "text", "content", "body", "summary", "short description", "abstract", "article", "news")
LOOKED_AT = 500
HOW = "Say which columns: --label NAME --title NAME --description NAME; numbers count from 1"


@dataclass(frozen=True, slots=True)
class LabelledArticle:
    line: int
    article: ArticleText
    labels: tuple[str, ...]
    """As they are in the file; several if the cell has several. Empty: no topic."""


@dataclass(frozen=True, slots=True)
class LabelledColumns:
    """Which columns to read, by name or by number from 1. None: found by the usual names, or by what is in them."""

    label: str | None = None
    title: str | None = None
    description: str | None = None
    separators: str = SEPARATORS
    """Signs between several labels of one cell. Empty: a cell is one label."""


@dataclass(frozen=True, slots=True)
class LabelledFile:
    articles: tuple[LabelledArticle, ...]
    skipped: int
    """Rows without text, or with too many cells."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return all labels, in order: numbers by value, names by alphabet."""
        found = {label for each in self.articles for label in each.labels}
        return tuple(
            sorted(found, key=lambda label: (not label.isdigit(), int(label) if label.isdigit() else 0, label))
        )

    @property
    def several(self) -> bool:
        """Tell whether an article has more than one label."""
        return any(len(each.labels) > 1 for each in self.articles)


def read_labelled(
    path: Path | None,
    columns: LabelledColumns = LabelledColumns(),  # noqa: B008  (frozen)
    *,
    delimiter: str | None = None,
    most: int | None = None,
) -> LabelledFile:
    """Read a file; None is standard input. The first line is a header, unless it looks like a row.

    Raises BadSheet with the fix. At most `most` articles are read.
    """
    with opened(path) as file:
        sheet = Sheet(file, delimiter_of(delimiter))
        with closing(sheet.rows(lambda line: None)) as rows:
            start = [row.cells for row in islice(rows, LOOKED_AT)]
        places = _Places.find(sheet.header, start, columns)
        articles: list[LabelledArticle] = []
        skipped: list[int] = []
        if not places.has_header:
            first = places.read(1, sheet.header, columns)
            articles += [first] if first else []
        with closing(sheet.rows(skipped.append)) as rows:
            for row in rows:
                if most is not None and len(articles) >= most:
                    break
                if (found := places.read(row.line, row.cells, columns)) is None:
                    skipped.append(row.line)
                else:
                    articles.append(found)
    if not articles:
        raise BadSheet(f"it has no row with a text. {HOW}")
    return LabelledFile(tuple(articles[:most]), len(skipped))


@dataclass(frozen=True, slots=True)
class _Places:
    label: int
    title: int | None
    description: int | None
    has_header: bool

    @classmethod
    def find(cls, header: Sequence[str], rows: Sequence[Sequence[str]], columns: LabelledColumns) -> "_Places":
        given = [columns.label, columns.title, columns.description]
        if any(name is not None for name in given):
            label, title, description = (None if name is None else _place(header, name) for name in given)
            if label is None:
                label = _by_name(header, LABEL_NAMES)
            if title is None and description is None:
                title, description = _by_name(header, TITLE_NAMES), _by_name(header, TEXT_NAMES)
        else:
            label, title, description = (_by_name(header, names) for names in (LABEL_NAMES, TITLE_NAMES, TEXT_NAMES))
        if label is None or (title is None and description is None):
            label, title, description = _by_contents([header, *rows], label, title, description)
        by_number = all(name is None or _is_number(header, name) for name in given)
        named = not by_number or _by_name(header, (*LABEL_NAMES, *TITLE_NAMES, *TEXT_NAMES)) is not None
        is_row = header[label].strip() in {row[label].strip() for row in rows}
        return cls(label, title, description, named or not is_row)

    def read(self, line: int, cells: Sequence[str], columns: LabelledColumns) -> LabelledArticle | None:
        title = cells[self.title].strip() if self.title is not None else ""
        description = cells[self.description].strip() if self.description is not None else ""
        if not title and not description:
            return None
        cell = cells[self.label]
        for sign in columns.separators:
            cell = cell.replace(sign, "\0")
        labels = tuple(dict.fromkeys(label.strip() for label in cell.split("\0") if label.strip()))
        return LabelledArticle(line, ArticleText(title, description), labels)


def _is_number(header: Sequence[str], name: str) -> bool:
    return name.isdigit() and name not in [each.strip() for each in header]


def _place(header: Sequence[str], name: str) -> int:
    if _is_number(header, name):
        if not 1 <= int(name) <= len(header):
            raise BadSheet(f"it has no column {name}. It has {len(header)}, which count from 1")
        return int(name) - 1
    return place_of(header, name)


def _by_name(header: Sequence[str], names: Sequence[str]) -> int | None:
    plain = [plain_name(each) for each in header]
    return next((plain.index(name) for name in names if name in plain), None)


def _by_contents(
    rows: Sequence[Sequence[str]], label: int | None, title: int | None, description: int | None
) -> tuple[int, int | None, int | None]:
    """Take the column with few different values for the label; of the others, the longest texts for the description."""
    width = len(rows[0])
    values = [[row[place].strip() for row in rows if len(row) > place] for place in range(width)]
    if label is None:
        different = {
            place: len(set(column)) for place, column in enumerate(values) if place not in (title, description)
        }
        label = min(different, key=lambda place: different[place], default=None)
        if label is None or different[label] * 2 > len(rows):
            raise BadSheet(f"no column looks like labels: each has many different values. {HOW}")
    if title is None and description is None:
        length = {
            place: sum(map(len, column)) / max(len(column), 1)
            for place, column in enumerate(values)
            if place != label and not all(value.isdigit() for value in column)
        }
        longest = sorted(length, key=lambda place: -length[place])[:2]
        if not longest:
            raise BadSheet(f"no column looks like a text. {HOW}")
        description, title = longest[0], longest[1] if len(longest) > 1 else None
    return label, title, description


def map_labels(
    labels: Sequence[str], taxonomy: Taxonomy, given: Mapping[str, str]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the topics that each label stands for, and the labels for which none was found.

    `given` says it by hand: {"1": "world,politics"}. Otherwise the label's own name is looked for. Raises BadSheet if
    `given` names a label or topic that does not exist.
    """
    known = {plain_name(label): label for label in labels}
    by_hand: dict[str, tuple[str, ...]] = {}
    for label, names in given.items():
        if plain_name(label) not in known:
            raise BadSheet(f'--map "{label}=…": no row has this label. It has: {_shown(labels)}')
        topics: list[str] = []
        for name in names.split(","):
            if not (found := taxonomy.find(name)):
                raise BadSheet(f'--map "{label}={name.strip()}": there is no such topic. {_known(taxonomy)}')
            topics += found
        by_hand[known[plain_name(label)]] = tuple(dict.fromkeys(topics))
    mapped = {label: by_hand.get(label) or taxonomy.find(label) for label in labels}
    return {label: topics for label, topics in mapped.items() if topics}, tuple(
        label for label, topics in mapped.items() if not topics
    )


def parse_map(options: Sequence[str]) -> dict[str, str]:
    """Read options of the form "label=topic,topic". Raises BadSheet."""
    found: dict[str, str] = {}
    for option in options:
        label, sign, topics = option.rpartition("=")
        if not sign or not label.strip() or not topics.strip():
            raise BadSheet(f'--map "{option}" is not label=topic. Write: --map "1=world,politics"')
        found[label.strip()] = topics
    return found


def count_labels(articles: Sequence[LabelledArticle]) -> Counter[str]:
    return Counter(label for each in articles for label in each.labels)


def _known(taxonomy: Taxonomy) -> str:
    return f"Groups: {_shown(list(taxonomy.groups) or list(taxonomy.topics))}"


def _shown(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
