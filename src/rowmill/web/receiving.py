"""Receive an uploaded file as it comes in, without a copy on disk or in memory.

    file = await receive_file(request)
    async for chunk in file.chunks: ...

FastAPI's UploadFile is there only once all of the file is, in a temporary file, and it is read before any dependency
has run: also for a caller that a dependency then refuses.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException, Request
from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

MOST_HEADER_BYTES = 16 * 1024
"""Of the headers of one part of a form."""
FORM = "multipart/form-data"
UPLOAD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
"""For OpenAPI: `openapi_extra=UPLOAD_BODY`."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that comes in. Nothing of what the sender says about it is checked."""

    filename: str
    media_type: str | None
    chunks: AsyncIterator[bytes]
    """Ends after the whole request was read. Raises HTTPException if it breaks off, or has a second file."""


async def receive_file(request: Request, *, filename: str | None = None, named: str = "file") -> ReceivedFile:
    """Return the file of a form, in the field `named`, or else the body as a file with the given name.

    Raises HTTPException for a form without a file, and for a body without a name.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.decode("latin-1").lower() != FORM:
        if not filename:
            raise HTTPException(422, {"code": "no_filename", "message": "say what the file is called: ?filename="})
        given = request.headers.get("content-type")
        return ReceivedFile(filename, given, _whole(request))
    parts = _parts_of(request, options.get(b"boundary", b""))
    async for part in parts:
        if isinstance(part, _Head) and part.field == named:
            return ReceivedFile(part.filename, part.media_type, _one_file(parts, named))
    raise HTTPException(422, {"code": "no_file", "message": f"the form has no file in the field {named}"})


@dataclass(frozen=True, slots=True)
class _Head:
    """The headers of a part of a form."""

    field: str
    filename: str
    media_type: str | None


END = object()
"""A part has ended."""
_Part = _Head | bytes | object


async def _one_file(parts: AsyncIterator[_Part], named: str) -> AsyncIterator[bytes]:
    async for part in parts:
        if part is END:
            break
        if isinstance(part, bytes):
            yield part
    async for part in parts:
        if isinstance(part, _Head) and part.field == named:
            raise HTTPException(422, {"code": "one_file", "message": "send one file in a request"})


async def _whole(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            if chunk:
                yield chunk
    except ClientDisconnect:
        raise HTTPException(400, {"code": "incomplete", "message": "the upload broke off"}) from None


async def _parts_of(request: Request, boundary: bytes) -> AsyncIterator[_Part]:
    """Yield the head of each part of a form, its bytes as they come in, and END."""
    malformed = HTTPException(400, {"code": "malformed", "message": "the form can't be read"})
    if not boundary:
        raise malformed
    collector = _Collector()
    try:
        parser = MultipartParser(boundary, collector.callbacks())  # type: ignore[arg-type]
    except FormParserError:  # a boundary that is longer than any
        raise malformed from None
    async for chunk in _whole(request):
        try:
            parser.write(chunk)
        except (MultipartParseError, UnicodeDecodeError):
            raise malformed from None
        for part in collector.taken():
            yield part
    if not collector.is_complete:
        raise HTTPException(400, {"code": "incomplete", "message": "the form ends in the middle"})


@dataclass(slots=True)
class _Collector:
    """Collects what the parser reports while it is given bytes."""

    is_complete: bool = False
    _parts: list[_Part] = field(default_factory=list)
    _headers: dict[str, str] = field(default_factory=dict)
    _name: bytes = b""
    _value: bytes = b""
    _size: int = 0

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin, "on_header_field": self._on_name, "on_header_value": self._on_value,
            "on_header_end": self._on_header, "on_headers_finished": self._on_head, "on_part_data": self._on_data,
            "on_part_end": lambda: self._parts.append(END), "on_end": self._on_end,
        }  # fmt: skip

    def taken(self) -> list[_Part]:
        parts, self._parts = self._parts, []
        return parts

    def _begin(self) -> None:
        self._headers, self._name, self._value, self._size = {}, b"", b"", 0

    def _on_name(self, data: bytes, start: int, end: int) -> None:
        self._name += self._counted(data[start:end])

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._counted(data[start:end])

    def _counted(self, part: bytes) -> bytes:
        self._size += len(part)
        if self._size > MOST_HEADER_BYTES:
            raise MultipartParseError("the headers of a part are too long")
        return bytes(part)

    def _on_header(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("utf-8", "replace")
        self._name = self._value = b""

    def _on_head(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", "").encode())
        field_name, filename = (options.get(key, b"").decode("utf-8", "replace") for key in (b"name", b"filename"))
        self._parts.append(_Head(field_name, filename, self._headers.get("content-type")))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._parts.append(bytes(data[start:end]))

    def _on_end(self) -> None:
        self.is_complete = True
