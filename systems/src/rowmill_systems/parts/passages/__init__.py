"""Splits a document into passages, by its structure, for search and for quotes.

    from rowmill_systems.parts.documents.document import Document, Kind, Line, Page
    from rowmill_systems.parts.passages import split

    lines = ["# Cranes", "A crane lifts heavy loads.", "Model\tTons", "LTM-1030\t35"]
    page = Page(1, tuple(map(Line, lines)))
    for passage in split(Document(Kind.TEXT, "text/markdown", (page,)), most_tokens=256):
        print(passage.page, passage.heading, passage.text)

A passage lies on one page and under one heading. Rows of tables stay whole, and a table that is split has its header in
each passage; lists stay together and sentences whole where they fit. Every word of the document is in a passage. The
same document always has the same passages.
"""

from rowmill_systems.parts.passages.passage import Passage
from rowmill_systems.parts.passages.splitting import split

__all__ = ["Passage", "split"]
