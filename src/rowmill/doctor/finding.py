"""Findings of an audit."""

import shlex
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from rowmill.adopt.table_facts import TableFacts
from rowmill.store.queue_sql import QueueSql


class FindingSeverity(StrEnum):
    INFO = "info"
    """Worth knowing."""
    WARNING = "warning"
    """It works, but badly, or not for long."""
    ERROR = "error"
    """Rows are not processed, or not as promised."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A finding: names, counts and times; never row contents."""

    severity: FindingSeverity
    code: str
    """Stable identifier for scripts."""
    what: str
    fix: str
    """The fix: a command, a statement, or a change to make."""
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds for findings. Times are in seconds."""

    late: float = 60.0
    """Age of an expired lease. A live worker rescues within seconds."""
    old_transaction: float = 300.0
    far: float = 366 * 86400.0
    """Time until a ready row becomes available."""
    stuck: float = 900.0
    """Age of a row in progress without a lease."""
    ahead: float = 60.0
    """Time by which a past event may lie after the database's clock."""
    skew: float = 2.0
    """Difference between the clocks of the database and of this machine."""
    scanned: int = 1000
    """Row count of a table without an index for claims."""
    dead_tuples: int = 10_000
    dead_share: float = 0.2
    """Dead row versions as a share of live rows."""
    most: int = 1000
    """Count rows up to this number, then report "more than"."""


@dataclass(frozen=True, slots=True)
class AuditedQueue:
    """A queue under audit, with what the database has of it."""

    connection: Connection
    sql: QueueSql
    facts: TableFacts
    limits: Thresholds

    @property
    def name(self) -> str:
        return self.sql.queue.name

    @property
    def typed(self) -> str:
        """The queue's name, quoted for a shell."""
        return shlex.quote(self.name)

    @property
    def postgres(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def finding(self, severity: FindingSeverity, code: str, what: str, fix: str) -> DoctorFinding:
        return DoctorFinding(severity, code, what, fix, self.name)

    @property
    def adopt(self) -> str:
        """The command that fixes the table."""
        return f"rowmill adopt {self.typed} --apply"


def many(count: int, most: int, what: str = "row") -> str:
    """Format a count: 12 rows; more than 1000 rows."""
    shown = f"more than {most}" if count > most else str(count)
    return f"{shown} {what}{'' if count == 1 else 's'}"
