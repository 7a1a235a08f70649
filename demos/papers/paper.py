"""A paper: a file, and what it says."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Paper:
    path: Path
    doc_type: str
    language: str
    layout: str
    kind: str
    """pdf, docx, xlsx, html, eml, txt, csv; for scans: scan-pdf, scan-png, scan-tiff."""
    expected: dict[str, Any]
    """Values by field of the default catalogue, in the form of suggestions; a list for fields with many values."""
    unseen: tuple[str, ...] = ()
    """Fields whose label does not occur in the tuned part."""

    @property
    def scan(self) -> bool:
        return self.kind.startswith("scan")


@dataclass(slots=True)
class Sheet:
    """The content of a paper, before layout."""

    doc_type: str
    language: str
    title: str = ""
    sender: list[str] = field(default_factory=list)
    sender_label: str = ""
    """Used by layouts that label both parties."""
    contact: list[str] = field(default_factory=list)
    recipient: list[str] = field(default_factory=list)
    recipient_label: str = ""
    others: list[tuple[str, list[str]]] = field(default_factory=list)
    """More addresses with their labels."""
    meta: list[tuple[str, str]] = field(default_factory=list)
    intro: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    """Cells. A line break continues the cell on the next line."""
    totals: list[tuple[str, str]] = field(default_factory=list)
    outro: list[str] = field(default_factory=list)
    mail: tuple[str, str] = ("", "")
    """Sender, recipient and date if it is a mail."""
    footer: list[list[str]] = field(default_factory=list)
    expected: dict[str, Any] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
