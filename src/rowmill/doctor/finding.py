"""What an audit finds."""

import shlex
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from rowmill.adopt.look import TableFacts
from rowmill.store.queue_sql import QueueSql


class FindingSeverity(StrEnum):
    INFO = "info"
    """Worth knowing."""
    WARNING = "warning"
    """It works, but not well, or not for long."""
    ERROR = "error"
    """Rows are not worked on, or not as promised."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is not as it should be. Names, counts and times; never what is in a row."""

    severity: FindingSeverity
    code: str
    """Stable, for scripts."""
    what: str
    fix: str
    """A command, a statement, or a change to make."""
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on something is worth a finding. Times in seconds."""

    late: float = 60.0
    """Since a lease ran out: a living worker rescues within seconds."""
    old_transaction: float = 300.0
    far: float = 366 * 86400.0
    """Ahead, for a row that is ready."""
    stuck: float = 900.0
    """In progress, for a row without a lease."""
    ahead: float = 60.0
    """Of the database's clock, for a time that should have been."""
    skew: float = 2.0
    """Between the clocks of the database and of this machine."""
    scanned: int = 1000
    """Rows of a table without an index for claims."""
    dead_tuples: int = 10_000
    dead_share: float = 0.2
    """Of the living rows."""
    most: int = 1000
    """Rows to count before "more than" is answer enough."""


@dataclass(frozen=True, slots=True)
class AuditedQueue:
    """A queue under examination, with what the database has of it."""

    connection: Connection
    sql: QueueSql
    look: TableFacts
    limits: Thresholds

    @property
    def name(self) -> str:
        return self.sql.queue.name

    @property
    def typed(self) -> str:
        """The queue's name in a command for a shell."""
        return shlex.quote(self.name)

    @property
    def postgres(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def finding(self, severity: FindingSeverity, code: str, what: str, fix: str) -> DoctorFinding:
        return DoctorFinding(severity, code, what, fix, self.name)

    @property
    def adopt(self) -> str:
        """The command that mends a table."""
        return f"rowmill adopt {self.typed} --apply"


def many(count: int, most: int, what: str = "row") -> str:
    """12 rows; more than 1000 rows."""
    shown = f"more than {most}" if count > most else str(count)
    return f"{shown} {what}{'' if count == 1 else 's'}"
