"""The catalogue: the fields that a project wants to know of its documents."""

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
    """One field: what documents call it, and what its values look like."""

    key: str
    label: str
    type: FieldType = FieldType.TEXT
    synonyms: tuple[str, ...] = ()
    """Its names in documents, in any language."""
    scheme: str = ""
    """What kind of its type it is, where that helps to find and to check it:

    id       iban, bic, vat, lei, isin, ean, isbn, creditor, luhn, register: its shape and check digits must be right
    amount   net, tax, total: they have to add up
    date     issue, due, delivery, start, end: nothing is due before it is issued
    number   percent
    party    seller, buyer, any; of an address: whose it is, or delivery
    text     sentence: the whole sentence; subject: also a line of its own above the greeting
    table    its columns, as `description,quantity,price,total`
    """
    doc_types: tuple[str, ...] = ()
    """Types of documents that have it; empty: all."""
    many: bool = False
    """A document may have several values of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the field in documents."""
        return (self.label, *self.synonyms)


@dataclass(frozen=True, slots=True)
class Catalogue:
    fields: tuple[Field, ...]
    ignore: tuple[str, ...] = ()
    """Labels that look like those of fields and mean something else."""

    def for_type(self, doc_type: str | None) -> tuple[Field, ...]:
        """Return the fields for documents of this type; all fields if the type is unknown."""
        known = doc_type and any(doc_type in field.doc_types for field in self.fields)
        return tuple(field for field in self.fields if not known or not field.doc_types or doc_type in field.doc_types)

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Catalogue":
        return cls(tuple(fields))
