"""What a project wants to know of its documents."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FieldType(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    AMOUNT = "amount"
    ID = "id"
    EMAIL = "email"
    PHONE = "phone"
    ADDRESS = "address"
    PARTY = "party"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to know: where it stands on paper, and what it looks like."""

    key: str
    label: str
    type: FieldType = FieldType.TEXT
    synonyms: tuple[str, ...] = ()
    """What papers call it, in any language."""
    scheme: str = ""
    """Of an id: iban, vat, lei, isin, ean, isbn, creditor…: its check digits must be right. Of a table: its columns, as
    `description,quantity,price,total`."""
    doc_types: tuple[str, ...] = ()
    """Which documents have it; none: all."""
    many: bool = False
    """A document may have several values of it."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    fields: tuple[Field, ...]

    def for_type(self, doc_type: str | None) -> tuple[Field, ...]:
        """The fields of a document of this type; all fields if the type is not known."""
        known = doc_type and any(doc_type in field.doc_types for field in self.fields)
        return tuple(field for field in self.fields if not known or not field.doc_types or doc_type in field.doc_types)

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Catalogue":
        return cls(tuple(fields))
