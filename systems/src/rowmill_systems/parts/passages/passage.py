"""A passage, and how long it is."""

from dataclasses import dataclass

from rowmill_systems.parts.models.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that is found and quoted as one."""

    page: int
    """The page it is on, from 1."""
    page_title: str
    """The name of the sheet, or of the attachment of a mail."""
    heading: str
    """The headings it stands under, from the outermost, as `Safety > Cranes`."""
    text: str

    @property
    def tokens(self) -> int:
        """Estimated, rather too many than too few."""
        return estimate_tokens(self.text)
