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
    """Which documents have it; none: all."""
    many: bool = False
    """A document may have several values of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that papers may call it."""
        return (self.label, *self.synonyms)


@dataclass(frozen=True, slots=True)
class Catalogue:
    fields: tuple[Field, ...]
    ignore: tuple[str, ...] = ()
    """Labels that stand beside those of fields and mean something else."""

    def for_type(self, doc_type: str | None) -> tuple[Field, ...]:
        """The fields of a document of this type; all fields if the type is not known."""
        known = doc_type and any(doc_type in field.doc_types for field in self.fields)
        return tuple(field for field in self.fields if not known or not field.doc_types or doc_type in field.doc_types)

    @classmethod
    def of(cls, fields: Iterable[Field]) -> "Catalogue":
        return cls(tuple(fields))
