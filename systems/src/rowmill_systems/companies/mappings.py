"""Mappings of names to company ids, cached answers of providers, and requests to look names up.

    with engine.begin() as connection:
        mappings = CompanyMappingRepository(connection, settings)
        mappings.enqueue_for_enrichment(["Acme Ltd"])

The caller owns the transaction: nothing here commits.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session

import rowmill as rm
from rowmill_systems.companies.company_ids import LONGEST_COMPANY_ID
from rowmill_systems.companies.mapping_sql import SEPARATOR, mapping_sql
from rowmill_systems.companies.models import INTERNAL, PERSON, TIERS, MatchType, tables_of
from rowmill_systems.companies.salts import Salts, check_salts
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import LONGEST_NAME, LONGEST_RAW_NAME, normalize_for_temp_id, temp_id
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import in_utc, upsert_into
from rowmill_systems.parts.values import storable

T = TypeVar("T")
BATCH = 5000
"""Names in one statement."""
ROWS_AT_ONCE = 500
"""Rows in one INSERT with a parameter for each value: databases allow some ten thousand parameters."""
LONGEST_ALIAS = LONGEST_NAME
"""Characters. An entry of PostgreSQL's indexes has at most 2,704 bytes."""
UNFIT = re.compile("[\x00\x1f\ud800-\udfff]")
"""What not every database stores, and what separates names in a batch."""
CODES: frozenset[MatchType] = frozenset(("plan_code", "account_number"))
"""Match types whose aliases are codes. The others are names."""


class ConflictGone(LookupError):
    """The conflict was resolved meanwhile, or never existed."""


class NoSalt(rm.RowmillError):
    """Temporary ids need a salt, and there is none."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """What a provider said of a name."""

    normalized_name: str
    company_id: str | None
    """None: it knows no such company."""
    source: str
    """The provider."""
    confidence: float = 1.0
    """Without a company: the score of the best candidate that was not accepted, or 0."""


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """What became of names that were to be enqueued: each distinct name is counted once."""

    enqueued: int = 0
    already_open: int = 0
    already_done: int = 0
    """Looked up before, and the answer is still believed."""
    already_failed: int = 0
    """Failed for good: put it back by hand."""
    refused: int = 0
    """Blank, meaningless or too long."""

    def __add__(self, other: "EnqueueResult") -> "EnqueueResult":
        return EnqueueResult(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class KnownName:
    """What is known of a name besides internal mappings."""

    cached: CachedAnswer | None = None
    request_status: str | None = None
    """Of a request that stands for the name: pending, processing, failed, or done with an answer that is believed."""
    resolved_company_id: str | None = None
    resolved_confidence: float | None = None


@dataclass(frozen=True, slots=True)
class MappingConflict:
    """Two ids for one alias. Lookups return `company_id` until a person decides."""

    id: int
    match_type: str
    alias: str
    company_id: str
    other_company_id: str
    created_at: datetime


MappedId = tuple[str, float]
"""A company id, and how sure the mapping is."""


def alias_of(match_type: MatchType, text: str) -> str:
    """Return the form in which mappings store an alias, and in which it is looked up. Empty if it says nothing.

    Names have the normal form that temporary ids have. Codes are upper case, half width, without spaces.
    """
    if match_type in CODES:
        return _code(text)
    if len(text) > LONGEST_RAW_NAME:
        return ""
    alias = normalize_for_temp_id(text)
    return UNFIT.sub("", alias) if UNFIT.search(alias) else alias


def batched(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `most`."""
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some


class CompanyMappingRepository:
    """Mappings, cached answers and requests, in the caller's transaction."""

    def __init__(
        self, connection: sa.Connection | Session, settings: CompaniesSettings, *, salt: str | None = None
    ) -> None:
        """`salt` is the secret of temporary ids; otherwise the one of the settings."""
        self.connection = connection.connection() if isinstance(connection, Session) else connection
        self.settings = settings
        dialect = self.connection.dialect.name
        self.tables, self._sql = tables_of(dialect), mapping_sql(dialect)
        self._salt = (salt or settings.temp_id_salt.get_secret_value()).strip()
        self._hashed = lru_cache(BATCH)(partial(temp_id, salt=self._salt))  # a request and its answer need the same one
        self._believed = {"cache_days": settings.cache_days, "no_match_days": settings.cache_no_match_days}

    def find_mapped(self, aliases: Collection[str]) -> tuple[dict[str, MappedId], ...]:
        """Look aliases up in all internal mappings. Return what each tier has, in the order of TIERS."""
        tiers: tuple[dict[str, MappedId], ...] = tuple({} for _ in TIERS)
        for some in batched(sorted(aliases), BATCH):  # sorted: neighbours share pages of the index
            row = self.connection.execute(self._sql.find_mapped, self._names(some)).one()
            places, kinds, ids, confidences = (json.loads(column or "[]") for column in row)
            found = map(some.__getitem__, places), zip(ids, confidences, strict=True)
            if len(set(kinds)) == 1 and kinds[0] is not None:
                tiers[kinds[0]].update(zip(*found, strict=True))
                continue
            for kind, alias, mapped in zip(kinds, *found, strict=True):
                if kind is not None:  # a match type that nobody knows
                    tiers[kind][alias] = mapped
        return tiers

    def find_known(self, names: Collection[str]) -> dict[str, KnownName]:
        """Return the best cached answer and the latest request of normalised names that have any."""
        cached: dict[str, CachedAnswer] = {}
        requests: dict[str, Any] = {}
        for some in batched(names, BATCH):
            for row in self.connection.execute(self._sql.find_known, self._names(some) | self._believed):
                place, kind, company_id, confidence, word = row
                name = some[place]
                if kind == 1:
                    requests[name] = word, company_id, confidence
                    continue
                answer = CachedAnswer(name, company_id, word, confidence)
                if name not in cached or _strength(answer) > _strength(cached[name]):
                    cached[name] = answer
        none = (None, None, None)
        return {
            name: KnownName(cached.get(name), *requests.get(name, none)) for name in (cached | requests)
        }  # fmt: skip

    def cache_answers(self, answers: Sequence[CachedAnswer]) -> None:
        """Store what providers answered, replacing what they said before. "No match" has a lifetime of its own."""
        mappings, dialect = self.tables.mappings, self.connection.dialect.name
        days = {
            True: now(dialect, days=self.settings.cache_days),
            False: now(dialect, days=self.settings.cache_no_match_days),
        }
        distinct = {(each.normalized_name, each.source): each for each in answers}
        if wrong := sum(source == INTERNAL for _, source in distinct):
            raise ValueError(f"{wrong} cached answers have the source {INTERNAL!r}, which is for mappings of people")
        for some in batched(sorted(distinct.items()), ROWS_AT_ONCE):
            insert = upsert_into(self.connection, mappings).values(
                [
                    {
                        "match_type": "company_name",
                        "alias": name,
                        "company_id": answer.company_id,
                        "source": source,
                        "confidence": answer.confidence,
                        "expires_at": days[answer.company_id is not None],
                    }
                    for (name, source), answer in some
                ]
            )
            new = insert.excluded
            self.connection.execute(
                insert.on_conflict_do_update(
                    index_elements=["alias", "match_type", "source"],
                    set_={
                        "company_id": new.company_id,
                        "confidence": new.confidence,
                        "expires_at": new.expires_at,
                        "updated_at": sa.func.now(),
                    },
                )
            )

    def enqueue_for_enrichment(self, names: Iterable[str], *, again: bool = False) -> EnqueueResult:
        """Request that names are looked up in the background. Each distinct name has at most one open request.

        A name that was looked up before is requested again when its answer has expired, or at once with `again`, which
        also requests names anew whose lookup has failed for good.
        """
        result = EnqueueResult()
        for some in batched(names, BATCH):
            given = dict.fromkeys(some)
            wanted: dict[str, str] = {}
            refused = 0
            for raw in given:
                name = alias_of("company_name", raw)
                if name and len(name) <= LONGEST_ALIAS:
                    wanted.setdefault(name, raw)
                else:
                    refused += 1
            if again:
                self._expire(list(wanted))
            counts = dict.fromkeys(("new", "pending", "processing", "done", "failed"), 0)
            for status in self.open_requests(wanted, again=again).values():
                counts[status] += 1
            open_before = counts["pending"] + counts["processing"]
            result += EnqueueResult(counts["new"], open_before, counts["done"], counts["failed"], refused)
        return result

    def _expire(self, names: Sequence[str]) -> None:
        """Let cached answers of providers hold no longer. What people decided stays."""
        c = self.tables.mappings.c
        for some in batched(names, ROWS_AT_ONCE):
            self.connection.execute(
                sa.update(self.tables.mappings)
                .where(c.alias.in_(some), c.match_type == "company_name", c.source.not_in([INTERNAL, PERSON]))
                .values(expires_at=sa.func.now())
            )

    def open_requests(self, wanted: Mapping[str, str], *, again: bool = False) -> dict[str, str]:
        """Insert requests for raw names, given by their normalised names.

        Return "new", or the status of the request that stands in the way, by normalised name.
        """
        statement = self._sql.insert_requests_again if again else self._sql.insert_requests
        found: dict[str, str] = {}
        for some in batched(sorted(wanted.items()), BATCH):
            rows = {"rows": self._rows(some)}
            given = rows if again else rows | self._believed
            if self.connection.dialect.name == "postgresql":
                found |= _pairs(self.connection.execute(statement, given))
                continue
            placed = set(self.connection.scalars(statement, given))
            found |= dict.fromkeys(placed, "new")
            rest = [pair for pair in some if pair[0] not in placed]
            if rest:
                found |= _pairs(self.connection.execute(self._sql.read_requests, {"rows": self._rows(rest)}))
        return found

    def record_answered(self, names: Mapping[str, str], code: str) -> None:
        """Record, as requests that are done without a company, raw names by normalised names that have no request yet.

        Each temporary id is found in a request then: for writing back when a person decides, and for a new salt.
        """
        for some in batched(sorted(names.items()), BATCH):
            self.connection.execute(self._sql.insert_answered, {"rows": self._rows(some), "code": code})

    def store_mapping(self, match_type: MatchType, alias: str, company_id: str, *, confidence: float = 1.0) -> None:
        """Store an internal mapping of an alias that is normalised, replacing the one that was there."""
        mappings = self.tables.mappings
        insert = upsert_into(self.connection, mappings).values(
            match_type=match_type, alias=alias, company_id=company_id, source=INTERNAL, confidence=confidence
        )
        self.connection.execute(
            insert.on_conflict_do_update(
                index_elements=["alias", "match_type", "source"],
                set_={"company_id": company_id, "confidence": confidence, "updated_at": sa.func.now()},
            )
        )

    def conflicts(self, *, limit: int = 100, after: int = 0) -> list[MappingConflict]:
        """Return conflicts that nobody has resolved, the oldest first, from the one after this id."""
        table = self.tables.conflicts
        wanted = sa.select(table).where(table.c.id > after).order_by(table.c.id).limit(limit)
        return [
            MappingConflict(
                row.id, row.match_type, row.alias, row.company_id, row.other_company_id, in_utc(row.created_at)
            )
            for row in self.connection.execute(wanted)
        ]

    def resolve_conflict(self, conflict_id: int, company_id: str) -> tuple[MatchType, str]:
        """Map the alias of a conflict to this id, and remove all conflicts of that alias. Return its kind and itself.

        Raises ConflictGone if somebody else was quicker.
        """
        company_id = company_id.strip()
        if not 0 < len(company_id) <= LONGEST_COMPANY_ID:
            raise ValueError(f"a company id has 1 to {LONGEST_COMPANY_ID} characters")
        table = self.tables.conflicts
        gone = sa.delete(table).where(table.c.id == conflict_id).returning(table.c.match_type, table.c.alias)
        row = self.connection.execute(gone).first()
        if row is None:
            raise ConflictGone(f"there is no conflict {conflict_id}: it was resolved meanwhile. List them again")
        same = sa.and_(table.c.match_type == row.match_type, table.c.alias == row.alias)
        self.connection.execute(sa.delete(table).where(same))
        self.store_mapping(row.match_type, row.alias, company_id)
        return row.match_type, row.alias

    def count_rungs(self, names: Mapping[str, int]) -> None:
        """Add to the counts of names by rung of today."""
        if names:
            rows = json.dumps(sorted(names.items()))
            self.connection.execute(self._sql.count_rungs, {"rows": rows})

    def check_salt(self) -> None:
        """Raise SaltMismatch if the ids of this database were made with another salt."""
        previous = self.settings.temp_id_salt_previous.get_secret_value().strip()
        check_salts(self.connection, self.tables, Salts(self._salt, previous))

    def temp_id(self, normalized_name: str) -> str:
        """Return the temporary id of a normalised name. Raises NoSalt."""
        if not self._salt:
            raise NoSalt("temporary ids need a salt, and there is none. Set WDH_TEMP_ID_SALT, or pass `salt`")
        return self._hashed(normalized_name)

    def _names(self, names: Sequence[str]) -> dict[str, Any]:
        if self.connection.dialect.name == "sqlite":
            return {"names": json.dumps(names, ensure_ascii=False)}
        joined = SEPARATOR.join(names)
        if joined.count(SEPARATOR) >= max(len(names), 1):  # normal forms of others may have it in them
            joined = SEPARATOR.join(name.replace(SEPARATOR, "") for name in names)
        return {"names": joined, "separator": SEPARATOR}

    def _rows(self, names: Iterable[tuple[str, str]]) -> str:
        return json.dumps([(name, storable(raw), self.temp_id(name)) for name, raw in names], ensure_ascii=False)


def _pairs(rows: Iterable[Any]) -> dict[str, str]:
    return {row[0]: row[1] for row in rows}


def _strength(answer: CachedAnswer) -> tuple[bool, bool, float]:
    """A person's "none of them" holds against what providers say, as long as it is believed."""
    return answer.source == PERSON, answer.company_id is not None, answer.confidence


def _code(text: str) -> str:
    folded = "".join(unicodedata.normalize("NFKC", text[: LONGEST_ALIAS * 2]).split()).upper()
    return "".join(filter(str.isprintable, folded))
