"""An index of the names in a file of companies, in SQLite."""

import hashlib
import json
import math
import os
import re
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from pathlib import Path

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from rowmill_systems.companies.providers.file_columns import FileCompany
from rowmill_systems.companies.providers.port import CompanyCandidate
from rowmill_systems.parts.names.companies import normalize_company

VERSION = 1
"""Of the tables below."""
BATCH = 1_000
"""Companies that are in memory at once while the index is made."""
MOST_EXACT = 50
MOST_SIMILAR = 20
MOST_READ = 3_000
"""Names that are looked at for one that is not in the file as it is written: those that share its rarest words."""
MOST_RANKED = 200
COMMON_LIMIT = 1_000
RARE = 2
"""A word in so few names may be a slip of somebody's: similar words are tried too."""
SHORTEST_SLIP = 4
MOST_SPELLINGS = 5
SLIP_WEIGHT = 0.8
PROBES = (
    "ＡＣＭＥ  Ltd.", "Müller & Söhne GmbH & Co. KG", "S.A. Société Générale (France)", "A/S Dansk", "N/A", "3M Co",
    "北京华为技术有限责任公司上海分公司", "臺灣積體電路製造股份有限公司", "株式会社日立製作所", "(주)삼성전자",
    "ООО «Ромашка»", "ΑΕ Εταιρεία",
)  # fmt: skip
"""Names whose normal forms tell one normalisation from another."""
WIDE = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
PIECES = re.compile(f"[{WIDE}]+|[^{WIDE}\\W]+")
IS_WIDE = re.compile(f"[{WIDE}]")

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE companies (id INTEGER PRIMARY KEY, company_id TEXT NOT NULL, name TEXT NOT NULL, other_names TEXT NOT NULL,
    details TEXT NOT NULL);
CREATE TABLE names (id INTEGER PRIMARY KEY, company INTEGER NOT NULL, normal TEXT NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(tokens, content='', detail=none, tokenize="unicode61 remove_diacritics 0");
CREATE VIRTUAL TABLE words_found USING fts5vocab(words, row);
CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT NOT NULL, names INTEGER NOT NULL);
CREATE VIRTUAL TABLE spellings USING fts5(tokens, content='', detail=none, tokenize="unicode61 remove_diacritics 0");
"""


@dataclass(frozen=True, slots=True)
class IndexStamp:
    """What an index was made of. Another one means that it is out of date."""

    size: int
    modified_ns: int
    columns: str
    normalizer: str
    version: int = VERSION


def normalizer_mark() -> str:
    """Return a mark of the normalisation: an index made with another one finds nothing by exact names."""
    forms = [normalize_company(name) for name in PROBES]
    return hashlib.sha256(json.dumps(forms).encode()).hexdigest()[:16]


def tokens(normal: str) -> list[str]:
    """Return the words of a normal form; pairs of characters for scripts that are written without spaces."""
    found: list[str] = []
    for piece in PIECES.findall(normal):
        if IS_WIDE.match(piece) and len(piece) > 1:
            found += [piece[place : place + 2] for place in range(len(piece) - 1)]
        else:
            found.append(piece)
    return list(dict.fromkeys(found))


class FileIndex:
    """An index that is complete. Read only; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        self._total: int = max(self._one("SELECT max(id) FROM names") or 0, 1)

    def stamp(self) -> IndexStamp:
        return IndexStamp(**json.loads(self._meta("stamp")))

    @property
    def digest(self) -> str:
        """Return the hash of the file that it was made of."""
        return self._meta("digest")

    def search(self, name: str) -> list[CompanyCandidate]:
        """Return the companies of that name; if there are none, those with similar names, the most similar first."""
        normal = normalize_company(name)
        if not normal:
            return []
        with self._lock:
            exact = self._connection.execute(
                "SELECT company, normal FROM names WHERE normal = ? LIMIT ?", (normal, MOST_EXACT)
            ).fetchall()
            return self._candidates(normal, exact or self._similar(normal))

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        # An index that was replaced is still searched by other threads: the last of them closes it.
        if hasattr(self, "_connection"):
            self._connection.close()

    def _similar(self, normal: str) -> list[tuple[int, str]]:
        weights = self._weigh(tokens(normal))
        if not weights:
            return []
        shared: defaultdict[int, float] = defaultdict(float)
        read = 0
        for term, (count, weight) in sorted(weights.items(), key=lambda each: each[1][0]):
            if read and read + count > MOST_READ:
                break
            if not read and count > MOST_READ:  # common words alone: names that have all of them
                for found in self._having(" AND ".join(map(_quoted, weights)), COMMON_LIMIT):
                    shared[found] += 1
                break
            read += count
            for found in self._having(_quoted(term), MOST_READ):
                shared[found] += weight
        best = nlargest(MOST_RANKED, shared, key=lambda found: (shared[found], -found))
        marks = ",".join("?" * len(best))
        rows = self._connection.execute(f"SELECT company, normal FROM names WHERE id IN ({marks})", best).fetchall()  # noqa: S608 - marks alone
        rows.sort(key=lambda row: -fuzz.token_sort_ratio(normal, row[1]))
        return rows

    def _weigh(self, words: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Return how many names have each word, and its weight: the rarer, the more. Words that few names have bring
        similar ones with them."""
        weights: dict[str, tuple[int, float]] = {}
        for word in words:
            count = self._one("SELECT names FROM terms WHERE term = ?", word) or 0
            if count:
                weights[word] = (count, self._weight(count))
            if count <= RARE and len(word) >= SHORTEST_SLIP and not IS_WIDE.match(word):
                for other, others in self._spellings(word):
                    weights.setdefault(other, (others, self._weight(others) * SLIP_WEIGHT))
        return weights

    def _weight(self, count: int) -> float:
        return math.log(1 + self._total / count)

    def _spellings(self, word: str) -> list[tuple[str, int]]:
        most = 1 if len(word) < 8 else 2
        parts = " OR ".join(map(_quoted, dict.fromkeys(_trigrams(word))))
        rows = self._connection.execute(
            "SELECT t.term, t.names FROM (SELECT rowid FROM spellings WHERE spellings MATCH ? ORDER BY rank LIMIT 200) "
            "AS s JOIN terms t ON t.id = s.rowid",
            (parts,),
        ).fetchall()
        near = [
            (distance, term, names)
            for term, names in rows
            if term != word and (distance := OSA.distance(word, term, score_cutoff=most)) <= most
        ]
        return [(term, names) for _, term, names in sorted(near)[:MOST_SPELLINGS]]

    def _having(self, query: str, most: int) -> Iterator[int]:
        rows = self._connection.execute("SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (query, most))
        return (row[0] for row in rows)

    def _candidates(self, normal: str, rows: Iterable[tuple[int, str]]) -> list[CompanyCandidate]:
        scores: dict[int, float] = {}
        for company, other in rows:
            scores.setdefault(company, fuzz.token_sort_ratio(normal, other) / 100)
            if len(scores) == MOST_EXACT:
                break
        kept = list(scores.items())[: MOST_EXACT if 1.0 in scores.values() else MOST_SIMILAR]
        marks = ",".join("?" * len(kept))
        query = f"SELECT id, company_id, name, other_names, details FROM companies WHERE id IN ({marks})"  # noqa: S608 - marks alone
        found = {row[0]: row[1:] for row in self._connection.execute(query, [company for company, _ in kept])}
        candidates: dict[str, CompanyCandidate] = {}
        for company, score in kept:
            company_id, name, others, details = found[company]
            names = tuple(json.loads(others))
            if (known := candidates.get(company_id)) is not None:  # a company in several rows
                names = tuple(dict.fromkeys((*known.other_names, name, *names)))
                candidates[company_id] = CompanyCandidate(
                    company_id, known.name, names, known.provider_score, known.details
                )
            else:
                candidates[company_id] = CompanyCandidate(company_id, name, names, score, json.loads(details))
        return list(candidates.values())

    def _meta(self, key: str) -> str:
        with self._lock:
            found = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(found[0])

    def _one(self, query: str, *values: str) -> int | None:
        row = self._connection.execute(query, values).fetchone()
        return row[0] if row else None


def build_index(path: Path, companies: Iterable[FileCompany]) -> None:
    """Make an index of companies in a new file. Holds some of them in memory at a time."""
    with closing(sqlite3.connect(path)) as connection:
        # Nobody reads it before it is complete, and it is made again if this process dies.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(SCHEMA)
        company_key = name_key = 0
        remaining = iter(companies)
        while batch := list(islice(remaining, BATCH)):
            rows, names, words = [], [], []
            for company in batch:
                company_key += 1
                others, details = json.dumps(company.other_names), json.dumps(company.details)
                rows.append((company_key, company.company_id, company.name, others, details))
                for normal in dict.fromkeys(map(normalize_company, (company.name, *company.other_names))):
                    if normal:
                        name_key += 1
                        names.append((name_key, company_key, normal))
                        words.append((name_key, " ".join(tokens(normal))))
            connection.executemany("INSERT INTO companies VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO names VALUES (?, ?, ?)", names)
            connection.executemany("INSERT INTO words (rowid, tokens) VALUES (?, ?)", words)
        connection.execute("CREATE INDEX names_normal ON names (normal)")
        connection.execute("INSERT INTO terms (term, names) SELECT term, doc FROM words_found")
        connection.execute("CREATE INDEX terms_term ON terms (term)")
        _index_spellings(connection)
        connection.commit()


def finish_index(path: Path, final: Path, stamp: IndexStamp, digest: str) -> None:
    """Record what the index was made of, and put it in its place at once: others see the old one or this one."""
    write_stamp(path, stamp, digest)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.replace(final)


def write_stamp(path: Path, stamp: IndexStamp, digest: str) -> None:
    fields = {name: getattr(stamp, name) for name in IndexStamp.__slots__}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('stamp', ?)", (json.dumps(fields),))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('digest', ?)", (digest,))


def _index_spellings(connection: sqlite3.Connection) -> None:
    """Index the words themselves, so that a misspelt one finds those that are similar."""
    with closing(connection.cursor()) as reading:
        reading.execute("SELECT id, term FROM terms WHERE length(term) >= ?", (SHORTEST_SLIP - 1,))
        while rows := reading.fetchmany(BATCH):
            words = [(key, " ".join(_trigrams(term))) for key, term in rows if not IS_WIDE.match(term)]
            connection.executemany("INSERT INTO spellings (rowid, tokens) VALUES (?, ?)", words)


def _trigrams(word: str) -> list[str]:
    return [word[place : place + 3] for place in range(len(word) - 2)]


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
