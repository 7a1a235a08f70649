"""What a statement costs when it is carried out: EXPLAIN (ANALYZE, BUFFERS, WAL)."""

import json
from typing import Any

from tests.plans.plan import Plan


class Explaining:
    """A session that carries statements out, says what they cost, and undoes them."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def cost(self, statement: str, *arguments: Any) -> Plan:
        """Once more if pages had to be logged as a whole, as they are when a checkpoint has just been: for the log's
        sake. Pages are those of the first time, since what was undone is in the way of the next."""
        pages: dict[str, int] = {}
        for _ in range(10):
            undone = self.connection.transaction()
            await undone.start()
            explain = f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) {statement}"
            plan = Plan(json.loads(await self.connection.fetchval(explain, *arguments))[0]["Plan"])
            await undone.rollback()
            pages = pages or {name: plan.root[name] for name in ("Shared Hit Blocks", "Shared Read Blocks")}
            if not plan.root.get("WAL FPI"):
                break
        plan.root.update(pages)
        return plan
