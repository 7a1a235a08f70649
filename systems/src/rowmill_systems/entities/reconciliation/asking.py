"""Dependencies and parameters that several endpoints share, and the JSON or JSONP of an answer."""

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
    """Refuse JSONP with 403, for a knowledge base that is not public: any site can read a script without asking."""
    if callback is not None:
        raise HTTPException(403, {"code": "not_open", "message": "this knowledge base is not open to other sites"})


def answered(content: Any, callback: str | None = None) -> Response:
    """Return JSON, or JSONP with a callback. In ASCII only: some characters that JSON allows end a line in a script."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    if callback is None:
        return Response(text, media_type="application/json")
    # The comment keeps what follows from being read as another kind of file by its first bytes.
    return Response(f"/**/{callback}({text});", media_type="text/javascript")
