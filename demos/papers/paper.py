"""What a paper is: a file, and what it says, written down before anybody read it."""

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
    """pdf, docx, xlsx, html, eml, txt, csv; of scans: scan-pdf, scan-png, scan-tiff."""
    expected: dict[str, Any]
    """By field of the default catalogue, in the form of suggestions; of fields with many values, a list."""
    unseen: tuple[str, ...] = ()
    """Fields whose label is worded as no paper of the tuned part words it."""

    @property
    def scan(self) -> bool:
        return self.kind.startswith("scan")


@dataclass(slots=True)
class Sheet:
    """What stands on a paper, before a layout gives it places."""

    doc_type: str
    language: str
    title: str = ""
    sender: list[str] = field(default_factory=list)
    sender_label: str = ""
    """Used by layouts that label both sides."""
    contact: list[str] = field(default_factory=list)
    recipient: list[str] = field(default_factory=list)
    recipient_label: str = ""
    others: list[tuple[str, list[str]]] = field(default_factory=list)
    """More addresses with their labels."""
    meta: list[tuple[str, str]] = field(default_factory=list)
    intro: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    """Cells; a line break inside one goes on in the next line."""
    totals: list[tuple[str, str]] = field(default_factory=list)
    outro: list[str] = field(default_factory=list)
    mail: tuple[str, str] = ("", "")
    """From whom to whom, when it goes by mail."""
    footer: list[list[str]] = field(default_factory=list)
    expected: dict[str, Any] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
