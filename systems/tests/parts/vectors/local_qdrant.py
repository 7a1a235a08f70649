"""Qdrant's client in its local mode, with the errors of a server."""

import json
from typing import Any

from httpx import Headers
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse


class LocalQdrant:
    """The client without a server. It raises ValueError where a server answers 404 or 409."""

    def __init__(self) -> None:
        self.client = AsyncQdrantClient(":memory:")

    def __call__(self, **_settings: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.client, name)

        async def call(*given: Any, **options: Any) -> Any:
            if name == "create_payload_index":
                return None  # it warns that it has none
            options.pop("search_params", None)  # and that it compares all vectors in any case
            try:
                return await verb(*given, **options)
            except ValueError as error:
                if "not found" in str(error):
                    raise response(404, f"Not found: Collection `{given[0]}` doesn't exist!") from error
                if "already exists" in str(error):
                    raise response(409, f"Wrong input: Collection `{given[0]}` already exists!") from error
                raise

        return call

    async def close(self) -> None:
        """Keep it: what it holds would be lost."""


def response(status: int, said: str) -> UnexpectedResponse:
    content = json.dumps({"status": {"error": said}, "time": 0.0}).encode()
    return UnexpectedResponse(status, "", content, Headers())
