"""Read files into pages of text, with the place of every word where the format has places.

    from rowmill_systems.parts.documents import Reader

    async with Reader() as reader:
        document = await reader.read(b"item,price\\npaper,12.50\\n", filename="a.csv", media_type="text/csv")
    assert document.kind == "csv"
    assert document.pages[0].lines[1].text == "paper\\t12.50"

Formats: PDF, Word, Excel, PowerPoint, HTML, CSV, plain text, mail with attachments, and images and scans by OCR. Files
are read in a process of their own: a file that crashes, hangs or fills the memory harms nothing else.
"""

from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.reader import Reader

__all__ = ["Box", "Document", "DocumentLimits", "Kind", "Line", "Page", "Reader", "Word"]
