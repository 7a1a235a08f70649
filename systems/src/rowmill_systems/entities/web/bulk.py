"""Add many entities in one request: one JSON object per line, read as a stream."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import ValidationError

from rowmill.web.problems import problems
from rowmill_systems.entities.submitting import ROWS_AT_ONCE, submit_counted
from rowmill_systems.entities.web import schemas
from rowmill_systems.entities.web.asking import GivenEntities

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

LONGEST_LINE = 256 * 1024
MOST_REFUSED = 100
router = APIRouter(tags=["entities"])
BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": '{"name": "Ada Lovelace"}\n'}},
    }
}


@router.post("/entities/bulk", openapi_extra=BODY, responses=problems(s413="too many entities"))
async def put_many_in(entities: GivenEntities, request: Request) -> schemas.Taken:
    """Add entities, one JSON object per line (NDJSON). Lines that are refused are reported, and the others are added.
    Entities are written while the request is read: if the connection breaks, send all again. Entities with an external
    id are not added twice."""
    taken = schemas.Taken(accepted=0, there_already=0, refused=[], refused_count=0)
    batch: list[dict[str, Any]] = []
    number = 0
    async for line in lines_of(request.stream()):
        number += 1
        if line is not None and not line.strip():
            continue
        try:
            if line is None:
                raise ValueError(f"the line is longer than {LONGEST_LINE:,} bytes")
            batch.append(schemas.EntityIn.model_validate_json(line).model_dump())
        except ValueError as error:
            refuse(taken, number, error)
            continue
        if taken.accepted + taken.there_already + len(batch) > entities.settings.most_bulk_rows:
            most = f"one request may have {entities.settings.most_bulk_rows:,} entities; those before are put in"
            raise HTTPException(413, {"code": "too_many", "message": most})
        if len(batch) >= ROWS_AT_ONCE:
            await write(entities, batch, taken)
            batch = []
    await write(entities, batch, taken)
    return taken


async def write(entities: "Entities", batch: list[dict[str, Any]], taken: schemas.Taken) -> None:
    new = await entities.mill.run(lambda connection: submit_counted(entities, connection, batch))
    taken.accepted += new
    taken.there_already += len(batch) - new


def refuse(taken: schemas.Taken, line: int, error: ValueError) -> None:
    """Report why a line was refused, without its content."""
    message = str(error)
    if isinstance(error, ValidationError):
        message = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'line'}: {one['msg']}" for one in error.errors())
    taken.refused_count += 1
    if len(taken.refused) < MOST_REFUSED:
        taken.refused.append(schemas.Refused(line=line, message=message))


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes | None]:
    """Yield the lines of a stream of chunks; None in place of a line that is too long."""
    rest, skipping = b"", False
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield None if skipping or len(line) > LONGEST_LINE else line
            skipping = False
        if len(rest) > LONGEST_LINE:
            rest, skipping = b"", True
    if skipping:
        yield None
    elif rest:
        yield rest
