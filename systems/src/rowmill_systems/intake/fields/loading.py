"""A catalogue from a TOML file or from text, and the one that comes with Rowmill."""

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import rowmill as rm
from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType

KEY = re.compile(r"[a-z][a-z0-9_]{0,62}")
LINE = re.compile(r"(?:[-*•]\s+|\d+[.)]\s+)?([^:()]*?)\s*(?:\(([^)]*)\))?\s*(?::(.*))?")
"""A list's mark, the name, the type in brackets, and what papers call it."""
KNOWN = {"key", "label", "type", "synonyms", "scheme", "doc_types", "many"}


class BadCatalogue(rm.PermanentError):
    """The file of a catalogue is not one. The message names the file, the field and the mistake."""

    code = "bad_catalogue"


def load_catalogue(path: str | Path | None = None) -> Catalogue:
    """Load the catalogue of a file; None: the one that ships with the package."""
    if path is None:
        return _catalogue(
            resources.files(__package__).joinpath("default.toml").read_text("utf-8"), "the default catalogue"
        )
    try:
        return _catalogue(Path(path).read_text("utf-8"), str(path))
    except OSError as error:
        raise BadCatalogue(f"{path} cannot be read: {error.strerror}. Give the path of a TOML file.") from error
    except UnicodeDecodeError as error:
        raise BadCatalogue(f"{path} is not UTF-8. Save it as UTF-8.") from error


def read_catalogue(text: str) -> Catalogue:
    """Parse a catalogue: TOML as in the file, or one line per field.

        invoice_number (id): Invoice no., Rechnungsnummer
        total (amount)
        Delivery note

    Before the colon is the key, with its type unless it is text; after it the names of the field in documents.
    """
    if "[[field]]" in text:
        return _catalogue(text, "the catalogue")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise BadCatalogue("the catalogue is empty. Write a line for each field, as: invoice_number (id): Invoice no.")
    return Catalogue(tuple(_distinct([_line(line, f"line {number}") for number, line in lines], "the catalogue")))


def _line(line: str, where: str) -> Field:
    found = LINE.fullmatch(line.strip())
    name, kind, called = found.groups() if found else ("", None, None)
    key = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    labels = [label.strip() for label in (called or "").split(",") if label.strip()]
    labels.append(name.replace("_", " ").strip())
    entry = {"key": key, "type": (kind or "text").strip().lower(), "label": labels[0], "synonyms": labels[1:]}
    return _field(entry, f"the catalogue, {where}")


def _catalogue(text: str, name: str) -> Catalogue:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadCatalogue(f"{name} is not TOML: {error}") from error
    entries = content.get("field")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise BadCatalogue(f"{name} has no fields. Write one [[field]] for each.")
    labels = content.get("labels", {})
    if not isinstance(labels, dict):
        raise BadCatalogue(f"{name}: labels must be a table with a list, ignore")
    fields = [_field(entry, f"{name}, field {number}") for number, entry in enumerate(entries, 1)]
    return Catalogue(tuple(_distinct(fields, name)), _words(labels, "ignore", name))


def _distinct(fields: list[Field], name: str) -> list[Field]:
    seen: set[str] = set()
    for field in fields:
        if field.key in seen:
            raise BadCatalogue(f"{name}: two fields have the key {field.key}. Give each its own.")
        seen.add(field.key)
    return fields


def _field(entry: Mapping[str, Any], where: str) -> Field:
    key = entry.get("key")
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise BadCatalogue(f"{where}: key must be lower-case letters, digits and _, as invoice_number")
    where = f"{where} ({key})"
    if unknown := sorted(set(entry) - KNOWN):
        raise BadCatalogue(f"{where}: unknown {', '.join(unknown)}. Known are {', '.join(sorted(KNOWN))}.")
    label, scheme, many = entry.get("label", key.replace("_", " ")), entry.get("scheme", ""), entry.get("many", False)
    if not isinstance(label, str) or not label.strip() or not isinstance(scheme, str) or not isinstance(many, bool):
        raise BadCatalogue(f"{where}: label and scheme must be text, many true or false")
    kind = entry.get("type", "text")
    if kind not in list(FieldType):
        raise BadCatalogue(f"{where}: type must be one of {', '.join(FieldType)}")
    if kind == FieldType.TABLE and not scheme:
        raise BadCatalogue(f"{where}: a table needs its columns as scheme, as description,quantity,price,total")
    return Field(
        key, label, FieldType(kind), _words(entry, "synonyms", where), scheme, _words(entry, "doc_types", where), many
    )


def _words(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    words = entry.get(key, [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
        raise BadCatalogue(f"{where}: {key} must be a list of texts")
    return tuple(words)
