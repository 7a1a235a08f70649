"""Count attempts to log in, in the database: for all processes together."""

import hashlib
from collections.abc import Mapping

import sqlalchemy as sa

from rowmill.web.login.attempts import (
    LoginAttempts,
    LoginBlocked,
    LoginLimit,
    count_attempt,
    network_of,
    take_back,
)
from rowmill_systems.knowledge.accounts.errors import LoginsBlocked
from rowmill_systems.knowledge.models import LoginFailure
from rowmill_systems.parts.clock import database_time, now
from rowmill_systems.parts.database import in_utc, upsert_into

USER_LIMIT = LoginLimit(free=5, first=1.0, longest=300.0)
ADDRESS_LIMIT = LoginLimit(free=30, first=1.0, longest=900.0)
"""Many people may share an address."""
Subjects = Mapping[str, LoginLimit]


def user_subject(email: str) -> str:
    return f"user:{_hash(email)}"


def subjects_of(email: str, address: str | None) -> Subjects:
    """Return what an attempt is counted for: the user, known or not, and the address that it comes from. Commands come
    from none."""
    by_address = {} if address is None else {f"address:{_hash(network_of(address))}": ADDRESS_LIMIT}
    return {user_subject(email): USER_LIMIT, **by_address}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# served by: the primary key
def count_attempts(connection: sa.Connection, subjects: Subjects) -> None:
    """Count an attempt, before its password is checked. Raises LoginsBlocked if it may not be made yet."""
    upsert = upsert_into(connection, LoginFailure).on_conflict_do_nothing()
    connection.execute(upsert, [{"subject": each} for each in sorted(subjects)])
    found = _locked(connection, subjects)
    moment = database_time(connection)  # after the locks, which others may have held for a while
    counted = {subject: count_attempt(subjects[subject], before, moment) for subject, before in found.items()}
    blocked = [one.seconds for one in counted.values() if isinstance(one, LoginBlocked)]
    if blocked:
        raise LoginsBlocked(max(blocked))
    for subject, state in counted.items():
        if isinstance(state, LoginAttempts):
            _write(connection, subject, state)


# served by: the primary key
def forgive(connection: sa.Connection, subjects: Subjects, email: str) -> None:
    """After a login: forget the attempts of the user, and take back this one of the address."""
    for subject, before in _locked(connection, subjects).items():
        if subject == user_subject(email):
            connection.execute(sa.delete(LoginFailure).where(LoginFailure.subject == subject))
        else:
            _write(connection, subject, take_back(before))


# served by: a scan; a row is a user or an address that failed lately
def remove_old_attempts(connection: sa.Connection) -> int:
    forgotten = now(connection.dialect.name, -max(USER_LIMIT.forgotten, ADDRESS_LIMIT.forgotten))
    return connection.execute(sa.delete(LoginFailure).where(LoginFailure.updated_at < forgotten)).rowcount


def _locked(connection: sa.Connection, subjects: Subjects) -> dict[str, LoginAttempts]:
    """Lock the rows, in one order for everybody."""
    wanted = sa.select(LoginFailure.__table__).where(LoginFailure.subject.in_(subjects))
    rows = connection.execute(wanted.order_by(LoginFailure.subject).with_for_update()).all()
    return {
        row.subject: LoginAttempts(
            row.failures, None if row.blocked_until is None else in_utc(row.blocked_until), in_utc(row.updated_at)
        )
        for row in rows
    }


def _write(connection: sa.Connection, subject: str, state: LoginAttempts) -> None:
    values = {"failures": state.failures, "blocked_until": state.blocked_until, "updated_at": state.changed_at}
    connection.execute(sa.update(LoginFailure).where(LoginFailure.subject == subject).values(values))
