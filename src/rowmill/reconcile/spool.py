"""Suspects of a pass, stored on disk until the pass is over: only then is it known which of them count."""

import tempfile
from collections.abc import Iterator
from typing import Self

from rowmill.reconcile.merge import Suspect
from rowmill.reconcile.sorting import packed, read

PAGE = 200
IN_MEMORY = 1 << 20


class Spool:
    """Stores suspects one by one, and returns them in pages, in the same order."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 closed with the block
        self._page: list[Suspect] = []

    def add(self, suspect: Suspect) -> None:
        self._page.append(suspect)
        if len(self._page) >= PAGE:
            self._flush()

    def pages(self) -> Iterator[list[Suspect]]:
        self._flush()
        page: list[Suspect] = []
        for entry in read(self._file):
            page.append(Suspect(*entry))
            if len(page) >= PAGE:
                yield page
                page = []
        if page:
            yield page

    def _flush(self) -> None:
        if self._page:
            self._file.write(packed([(one.rule, one.key, one.here, one.in_flight) for one in self._page]))
            self._page = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
