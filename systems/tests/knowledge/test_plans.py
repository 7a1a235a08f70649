"""The statements that events run on large tables are served by indexes, also before anybody has run ANALYZE."""

from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.documents import read_documents
from rowmill_systems.knowledge.events.deleting_kb import archive_documents, hide_documents
from rowmill_systems.knowledge.events.failing import fail_documents_of_dead_events
from rowmill_systems.knowledge.events.reembedding import queue_documents
from rowmill_systems.knowledge.events.running import runs_of
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, OutboxEvent
from rowmill_systems.knowledge.queues import KB_DELETE, is_on_its_way
from rowmill_systems.parts.index_plans import index_order

ROWS = 3000
TABLES = ("documents", "outbox", "chunks")


async def fill(knowledge: Knowledge, kb_id: UUID, analysed: bool) -> None:
    """Write documents, of which a tenth is unfinished, and the events that processed them."""

    def insert(connection: sa.Connection) -> None:
        connection.execute(
            sa.insert(KbDocument),
            [
                {
                    "id": uuid4(), "kb_id": kb_id, "filename": f"{n}", "size": 1, "sha256": "x", "object_key": f"{n}",
                    "status": "ready" if n % 10 else "processing", "event_id": n + 1,
                }
                for n in range(ROWS)
            ],
        )  # fmt: skip
        connection.execute(
            sa.insert(OutboxEvent),
            [
                {
                    "event_type": "document.process", "aggregate_id": str(n),
                    "state": "processed" if n % 10 else "dead", "attempts": 0 if n % 10 else 5,
                }
                for n in range(ROWS)
            ],
        )  # fmt: skip
        if analysed:
            connection.exec_driver_sql("ANALYZE")

    await knowledge.mill.run(insert)


def plans(connection: sa.Connection, work: Any) -> str:
    """Run something, and return the plans of its statements."""
    seen: list[tuple[str, Any]] = []

    def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        if any(name in text for name in TABLES) and not text.startswith("EXPLAIN"):
            seen.append((text, given))

    sa.event.listen(connection, "before_cursor_execute", see)
    work(connection)
    sa.event.remove(connection, "before_cursor_execute", see)
    assert seen
    explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with index_order(connection):
        return "\n".join(
            str(row[-1]) for text, given in seen for row in connection.exec_driver_sql(explain + text, given)
        )


@pytest.mark.parametrize("analysed", [False, True])
async def test_events_read_no_whole_table(knowledge: Knowledge, analysed: bool) -> None:
    kb_id = await create_kb(knowledge, "a")
    await fill(knowledge, kb_id, analysed)
    statements = {
        "runs_of": lambda c: runs_of(c, kb_id),
        "is_on_its_way": lambda c: is_on_its_way(c, KB_DELETE, kb_id),
        "read_documents": lambda c: read_documents(c, kb_id, status=None, before=None, limit=50),
        "queue_documents": lambda c: queue_documents(c, kb_id),
        "fail_documents": lambda c: fail_documents_of_dead_events(c, limit=10),
        "hide_documents": lambda c: hide_documents(c, kb_id),
        "archive_documents": lambda c: archive_documents(c, kb_id),
    }
    for name, work in statements.items():
        found = await knowledge.mill.run(lambda c, work=work: plans(c, work))  # type: ignore[misc]
        for table in TABLES:
            for bad in (f"Seq Scan on {table}", f"SCAN {table}\n"):
                assert bad not in f"{found}\n", f"{name}:\n{found}"
