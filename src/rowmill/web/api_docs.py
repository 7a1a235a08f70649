"""The API of an application, told for a page: FastAPI's own page loads scripts from elsewhere, and runs some inline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
UNTAGGED = "other"


@dataclass(frozen=True, slots=True)
class DocumentedField:
    """A parameter, or a property of a body."""

    name: str
    place: str
    """`path`, `query`, `header`, or "" for a property."""
    type: str
    required: bool
    text: str


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent or answered: its media type, the name of its schema, and its properties."""

    media: str
    type: str
    properties: Sequence[DocumentedField]


@dataclass(frozen=True, slots=True)
class Answer:
    code: str
    text: str
    body: Body | None


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    title: str
    text: str
    parameters: Sequence[DocumentedField]
    body: Body | None
    answers: Sequence[Answer]


@dataclass(frozen=True, slots=True)
class Description:
    """A document of OpenAPI, by tag."""

    title: str
    version: str
    text: str
    groups: Mapping[str, Sequence[Operation]]


def describe(document: Mapping[str, Any]) -> Description:
    """Read what a page shows out of a document of OpenAPI 3.1."""
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                tag = next(iter(methods[method].get("tags", ())), UNTAGGED)
                groups.setdefault(tag, []).append(_operation(document, path, method, methods[method]))
    about = document["info"]
    return Description(about["title"], about["version"], about.get("description", ""), groups)


def _operation(document: Mapping[str, Any], path: str, method: str, given: Mapping[str, Any]) -> Operation:
    parameters = [
        DocumentedField(
            each["name"],
            each["in"],
            _type(each.get("schema", {})),
            each.get("required", False),
            each.get("description", ""),
        )
        for each in given.get("parameters", ())
    ]
    answers = [
        Answer(code, answer.get("description", ""), _body(document, answer.get("content", {})))
        for code, answer in sorted(given.get("responses", {}).items())
    ]
    return Operation(
        id=given.get("operationId", f"{method}-{path}"),
        method=method.upper(),
        path=path,
        title=given.get("summary", path),
        text=given.get("description", ""),
        parameters=parameters,
        body=_body(document, given.get("requestBody", {}).get("content", {})),
        answers=answers,
    )


def _body(document: Mapping[str, Any], content: Mapping[str, Any]) -> Body | None:
    for media, given in content.items():
        schema = given.get("schema", {})
        return Body(media, _type(schema), list(_properties(document, schema)))
    return None


def _properties(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[DocumentedField]:
    found = _resolved(document, schema)
    found = _resolved(document, found.get("items", found))
    required = found.get("required", ())
    for name, each in found.get("properties", {}).items():
        yield DocumentedField(name, "", _type(each), name in required, each.get("description", ""))


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, where there is a reference to it, or the one that is not null of several."""
    for each in schema.get("anyOf", ()):
        if each.get("type") != "null":
            return _resolved(document, each)
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][_name(schema)]
    return found


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    """A type in a few words: "integer", "File[]", "string or null"."""
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"{_type(schema.get('items', {}))}[]"
    kind = str(schema.get("type", "any"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
