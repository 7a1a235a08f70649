"""What every endpoint needs: the service, the parameters that several take, and the form of an answer."""

import json
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Query, Request, Response

from rowmill_systems.entities.reconciliation.matching import ReconciliationService

Identifier = Annotated[str, Query(max_length=500)]
TypeWord = Annotated[str | None, Query(max_length=500)]
Callback = Annotated[
    str | None,
    # A name, and nothing that could be a script: it is what the asker writes into the answer.
    Query(pattern=r"^[A-Za-z_$][A-Za-z0-9_$]*$", max_length=100, description="JSONP: the function to call."),
]


def the_service(request: Request) -> ReconciliationService:
    found: ReconciliationService = request.app.state.reconciliation
    return found


GivenService = Annotated[ReconciliationService, Depends(the_service)]


def no_scripts(callback: Callback = None) -> None:
    """For a knowledge base that is not everybody's: a script is what pages of other sites read without asking."""
    if callback is not None:
        raise HTTPException(403, {"code": "not_open", "message": "this knowledge base is not open to other sites"})


def answered(content: Any, callback: str | None = None) -> Response:
    """In ASCII: so it is the same in JSON and in a script, in which some characters of text end a line."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    if callback is None:
        return Response(text, media_type="application/json")
    # The comment keeps what follows from being read as another kind of file by its first bytes.
    return Response(f"/**/{callback}({text});", media_type="text/javascript")
