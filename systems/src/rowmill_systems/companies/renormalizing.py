"""Give requests that were made by other rules the normal form of here.

`migrate` keeps a `normalized_name` that a table has. This makes them anew from the names as they were written, so that
one name has one open request and one temporary id. Progress is in `company_meta`, in the transaction of each batch:
after a kill at any point, the next call goes on where the last commit left off.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.salts import read_meta, write_meta
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.write_back import ROWS, note_target, registered_targets, write_back
from rowmill_systems.parts.clock import now

BATCH = 500
"""Requests that one transaction looks at."""
MOST_AT_ONCE = 5000
"""Requests that one transaction changes at the most, if many depend on each other."""
PARKED = "renormalizing"
"""Begins the form that a request has within a transaction, while others change around it."""
POSITION = "renormalize_position"
OPEN = ("pending", "processing")
MERGED = "merged: another request for this name is open"


@dataclass(frozen=True, slots=True)
class RenormalizeReport:
    """What was done; in a plan, what would be."""

    requests: int = 0
    """Requests with another normal form."""
    merged: int = 0
    """Those of them that are done, because another request for the name is open and stands for both. In a plan, at
    least so many."""
    busy: int = 0
    """Requests that could not be changed: they are being looked up, or their new temporary id is that of another name
    that can't be changed. Run it again."""
    rows: int = 0
    """Rows of targets that got the temporary id of the new form, or the company."""
    last_id: int = 0


def renormalize(
    companies: Companies,
    *,
    plan_only: bool = False,
    batch: int = BATCH,
    progress: Callable[[RenormalizeReport], None] | None = None,
) -> RenormalizeReport:
    """Make the normal forms of all requests and open reviews anew. Idempotent, and resumable.

    A name that names nothing by the rules of here keeps what it has.
    """
    engine, tables = companies.engine, companies.tables
    with engine.connect() as connection:
        kept = None if plan_only else read_meta(connection, tables, POSITION)
    done = RenormalizeReport(last_id=int(kept or 0))
    more = True
    while more:
        with engine.connect() if plan_only else engine.begin() as connection:
            done, more = _renormalize_batch(connection, companies, done, batch, plan_only)
            if not plan_only:
                write_meta(connection, tables, POSITION, str(done.last_id) if more else None)
        if progress is not None:
            progress(done)
    if not plan_only:
        _renormalize_reviews(companies, batch)
    return done


@dataclass(slots=True)
class FormChanges:
    """What one transaction changes."""

    others: dict[int, Any]
    """Requests with another normal form, by id."""
    forms: dict[int, str]
    """The forms that they get."""
    holders: dict[int, list[Any]]
    """For each of them the requests for other names that have its form or its temporary id. They have to give it up
    first: nobody could tell the rows of two names with one id apart again."""
    busy: set[int] = field(default_factory=set)
    """Those that can't be changed now."""
    shared: set[str] = field(default_factory=set)
    """Temporary ids that stand for several names by the rules of here. They are kept."""
    merged: set[int] = field(default_factory=set)

    @property
    def changed(self) -> list[Any]:
        return [row for key, row in self.others.items() if key not in self.busy]

    def gives_way(self, holder: Any, wanted: str) -> bool:
        """Tell whether a request gives up its form, and the temporary id that is `wanted`."""
        if holder.id not in self.others or holder.id in self.busy:
            return False
        return holder.temp_id != wanted or wanted not in self.shared

    def hold_back_chains(self) -> None:
        """Leave all requests as they are that take something from another name, or have to give it up, and those for
        the same names."""
        takers = [row.id for row in self.changed if self.holders[row.id]]
        givers = [holder.id for key in takers for holder in self.holders[key]]
        names = {self.forms[key] for key in [*takers, *givers]}
        self.busy |= {row.id for row in self.changed if self.forms[row.id] in names}


# served by: the primary key
def _renormalize_batch(
    connection: sa.Connection, companies: Companies, done: RenormalizeReport, batch: int, plan_only: bool
) -> tuple[RenormalizeReport, bool]:
    c = companies.tables.requests.c
    wanted = _requests(companies).where(c.id > done.last_id).order_by(c.id).limit(batch)
    rows = connection.execute(wanted if plan_only else wanted.with_for_update()).all()
    if not rows:
        return done, False
    changes = _find_changes(connection, companies, rows, plan_only)
    written = 0
    moved: set[int] = set()
    if changes.changed and not plan_only:
        moved, written = _move_ids(connection, companies, changes)
    changes.merged = _duplicates(connection, companies, changes)
    if changes.changed and not plan_only:
        _write(connection, companies, changes, moved)
    own = {row.id for row in rows}
    # A plan changes nothing: requests of other batches are met there again.
    counted = {row.id for row in changes.changed if not plan_only or row.id in own}
    done = replace(
        done, requests=done.requests + len(counted), merged=done.merged + len(changes.merged & counted),
        busy=done.busy + len(changes.busy & own), rows=done.rows + written, last_id=rows[-1].id,
    )  # fmt: skip
    return done, True


def _requests(companies: Companies) -> "sa.Select[Any]":
    c = companies.tables.requests.c
    return sa.select(c.id, c.raw_name, c.normalized_name, c.temp_id, c.status, c.resolved_company_id)


# served by: ix_enrichment_requests_temp_id
def _find_changes(connection: sa.Connection, companies: Companies, rows: Sequence[Any], plan_only: bool) -> FormChanges:
    """Return what can be changed together with some requests."""
    c = companies.tables.requests.c
    changes = _with_holders(connection, companies, rows, plan_only)
    olds = {row.temp_id for row in changes.others.values() if row.temp_id}
    names: dict[str, set[str]] = {}
    for old, raw in connection.execute(sa.select(c.temp_id, c.raw_name).where(c.temp_id.in_(olds))) if olds else ():
        names.setdefault(old, set()).add(normalize_for_temp_id(raw or ""))
    changes.shared = {old for old, of in names.items() if len(of) > 1}
    changes.busy = {key for key, row in changes.others.items() if row.status == "processing"}
    while blocked := _blocked(companies, changes):  # one that stays may hold up others
        changes.busy |= blocked
    return changes


def _blocked(companies: Companies, changes: FormChanges) -> set[int]:
    """Return the requests whose form or temporary id somebody keeps who has another name."""
    found = set[int]()
    for row in changes.changed:
        wanted = companies.salts.temp_id(changes.forms[row.id])
        if not all(changes.gives_way(holder, wanted) for holder in changes.holders[row.id]):
            found.add(row.id)
    return found


# served by: ix_enrichment_requests_temp_id, ix_enrichment_requests_name
def _with_holders(connection: sa.Connection, companies: Companies, rows: Sequence[Any], plan_only: bool) -> FormChanges:
    """Return those of some requests that have another normal form, with all that stand in their way, and in the way of
    those. Beyond `MOST_AT_ONCE` no more are taken in: a chain that is longer is done in several passes."""
    c, salts = companies.tables.requests.c, companies.salts
    changes = FormChanges({}, {}, {})
    new: list[Any] = list(rows)
    while new:
        wanted: dict[str, list[int]] = {}
        """Requests by the forms and temporary ids that they get."""
        for row in new:
            form = normalize_for_temp_id(row.raw_name or "")
            if form in ("", row.normalized_name):
                continue
            changes.others[row.id], changes.forms[row.id], changes.holders[row.id] = row, form, []
            for each in (form, salts.temp_id(form)):
                wanted.setdefault(each, []).append(row.id)
        new = []
        if not wanted:
            break
        query = _requests(companies).where(sa.or_(c.temp_id.in_(wanted), c.normalized_name.in_(wanted))).order_by(c.id)
        # One that somebody has locked is not waited for: they may wait for one of ours. It counts as one that stays.
        usable = query if plan_only else query.with_for_update(skip_locked=True)
        locked = {row.id: row for row in connection.execute(usable)}
        for seen in connection.execute(query):
            row = locked.get(seen.id, seen)
            form, stands_in_the_way = normalize_for_temp_id(row.raw_name or ""), False
            for key in {*wanted.get(row.temp_id or "", ()), *wanted.get(row.normalized_name, ())}:
                if changes.forms[key] != form:
                    changes.holders[key].append(row)
                    stands_in_the_way = True
            room = len(changes.others) + len(new) < MOST_AT_ONCE
            if stands_in_the_way and room and row.id in locked and row.id not in changes.others:
                new.append(row)
    return changes


# served by: uq_enrichment_requests_open
def _duplicates(connection: sa.Connection, companies: Companies, changes: FormChanges) -> set[int]:
    """Return the pending requests whose new form has another open request for that name. Among those that change, the
    oldest one stays."""
    c = companies.tables.requests.c
    pending = sorted((row for row in changes.changed if row.status == "pending"), key=lambda row: row.id)
    names = {changes.forms[row.id] for row in pending}
    wanted = sa.select(c.normalized_name, c.raw_name).where(c.normalized_name.in_(names), c.status.in_(OPEN))
    there = connection.execute(wanted).all() if names else ()
    taken = {row.normalized_name for row in there if normalize_for_temp_id(row.raw_name or "") == row.normalized_name}
    merged = set[int]()
    for row in pending:
        form = changes.forms[row.id]
        if form in taken:
            merged.add(row.id)
        taken.add(form)
    return merged


def _move_ids(connection: sa.Connection, companies: Companies, changes: FormChanges) -> tuple[set[int], int]:
    """Give rows of targets the new temporary ids. Return the requests whose id may change, and the rows written.

    An id that stands for several names by the rules of here is kept: its rows can't be told apart. If a target can't be
    written, all are kept, and requests that depend on each other are held back.
    """
    salts, replacements = companies.salts, dict[str, str]()
    movable = [row for row in changes.changed if row.temp_id not in changes.shared]
    for row in sorted(movable, key=lambda row: row.resolved_company_id is not None):
        new = row.resolved_company_id or salts.temp_id(changes.forms[row.id])
        if row.temp_id and row.temp_id != new:
            replacements[row.temp_id] = new
    written, codes = 0, dict[int, str]()
    undo = connection.begin_nested()
    for some in in_layers(replacements, lambda old: salts.temp_id(f"{PARKED} {old}")):
        while True:
            report = write_back(connection, companies.tables, some, companies.log, wait=True)
            written += report.rows
            if report.failed or report.rows < ROWS:
                break
        if report.failed:
            # Half of a chain would be rows of two names with one id.
            codes = {each.id: each.last_error for each in registered_targets(connection, companies.tables)}
            undo.rollback()
            for target, code in codes.items():
                note_target(connection, companies.tables, target, last_error=code)
            changes.hold_back_chains()
            return {row.id for row in movable if not row.temp_id}, 0
    undo.commit()
    return {row.id for row in movable}, written


def in_layers(replacements: Mapping[str, str], park: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Yield replacements in an order in which each may be done to its end before the next begins, so that no id is
    replaced by one that is itself replaced later.

    Of ids in a circle, one is replaced by an id of its own first, which `park` makes.
    """
    left = dict(replacements)
    while left:
        layer = {old: new for old, new in left.items() if new not in left}
        if layer:
            yield layer
            left = {old: new for old, new in left.items() if old not in layer}
            continue
        # Only circles, and what leads into them: after as many steps as there are ids, one is in a circle.
        old = next(iter(left))
        for _ in range(len(left)):
            old = left[old]
        parked = park(old)
        yield {old: parked}
        left[parked] = left.pop(old)


def _write(connection: sa.Connection, companies: Companies, changes: FormChanges, moved: set[int]) -> None:
    requests, current = companies.tables.requests, now(connection.dialect.name)
    key = requests.c.id == sa.bindparam("of_id")
    if changes.merged:
        ended = {"status": "done", "outcome": "merged", "last_error": MERGED, "next_retry_at": None}
        change = sa.update(requests).where(requests.c.id.in_(changes.merged))
        connection.execute(change.values(**ended, finished_at=current))
    # Forms of open requests are unique, at each single change.
    given_up = [holder.id for row in changes.changed for holder in changes.holders[row.id]]
    if given_up:
        parked = sa.literal(f"{PARKED} ") + sa.cast(requests.c.id, sa.Text)
        connection.execute(sa.update(requests).where(requests.c.id.in_(given_up)).values(normalized_name=parked))
    connection.execute(
        sa.update(requests)
        .where(key)
        .values(normalized_name=sa.bindparam("form"), temp_id=sa.bindparam("made"), updated_at=current),
        [
            {
                "of_id": row.id,
                "form": changes.forms[row.id],
                "made": companies.salts.temp_id(changes.forms[row.id]) if row.id in moved else row.temp_id,
            }
            for row in changes.changed
        ],
    )


# served by: ix_company_reviews_state, uq_company_reviews_open
def _renormalize_reviews(companies: Companies, batch: int) -> None:
    """Give open reviews the new forms: a decision goes by them. Where a name has a review already, that one stays."""
    c, last = companies.tables.reviews.c, 0
    while True:
        with companies.engine.begin() as connection:
            wanted = sa.select(c.id, c.raw_name, c.normalized_name).where(c.state == "open", c.id > last)
            rows = connection.execute(wanted.order_by(c.id).limit(batch)).all()
            if not rows:
                return
            last = rows[-1].id
            for row in rows:
                form = normalize_for_temp_id(row.raw_name)
                there = sa.exists().where(c.normalized_name == form, c.state == "open")
                if form not in ("", row.normalized_name) and not connection.scalar(sa.select(there)):
                    change = sa.update(companies.tables.reviews).where(c.id == row.id)
                    connection.execute(change.values(normalized_name=form))
