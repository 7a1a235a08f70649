"""Sends alerts as JSON to a webhook."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import BadRequest

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; doubled before the third."""


class Webhook:
    """POSTs the fields of each alert, with a `text` for chat services. The URL may hold a secret, so it is never
    logged."""

    def __init__(self, url: str, *, timeout: Duration = 10.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadRequest("a webhook is an address that begins with https:// or http://")
        self._url, self._timeout = url, in_seconds(timeout)

    async def __call__(self, fields: Mapping[str, Any]) -> None:
        body = json.dumps({**fields, "text": sentence(fields)}).encode()
        for failed in range(TRIES):
            try:
                await asyncio.to_thread(self._post, body)
                return
            except OSError as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
                if failed == TRIES - 1 or refused:
                    raise
                await asyncio.sleep(PAUSE * 2**failed)

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": "rowmill"}
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310  the scheme was looked at
        with urllib.request.urlopen(request, timeout=self._timeout):  # noqa: S310
            pass


def sentence(fields: Mapping[str, Any]) -> str:
    """Return an alert as one line of text."""
    things = {"queue": "of queue", "reconciliation": "of reconciliation"}
    about = "".join(f" {words} {fields[name]}" for name, words in things.items() if fields.get(name))
    value, limit = fields.get("value"), fields.get("limit")
    measured = "" if limit is None else f": {'nobody yet' if value is None else f'{value:g}'} (limit {limit:g})"
    return f"{fields['severity']} {fields['alert']}{about}, {fields['status']}{measured}"
