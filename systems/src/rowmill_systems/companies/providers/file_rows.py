"""Read the companies of a CSV or Parquet file, row by row: it may be larger than memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from rowmill_systems.companies.providers.file_columns import CompanyColumns, FileCompany, SkippedRow, find_columns
from rowmill_systems.parts.sheets import BadSheet, Sheet

BuildProgress = Callable[[int, float], None]
"""Called now and then with the rows that were read, and their share of the file from 0 to 1."""
PARQUET_MARK = b"PAR1"
ZIP_MARK = b"PK\x03\x04"
GZIP_MARK = b"\x1f\x8b"
PARQUET_ROWS = 5_000
"""Rows that are in memory at once."""
STEP = 1_000
FIRST_LINES = 5


class CompaniesFile:
    """The companies of a file. Count what was left out in `skipped`, by reason."""

    def __init__(self, path: Path, file: BinaryIO, columns: Mapping[str, str] | None) -> None:
        """Raises BadSheet if the file can't be read, or has no such columns."""
        self.path, self._file, self._columns = path, file, columns
        self.rows = 0
        self.skipped = Counter[str]()
        self.skipped_lines: list[int] = []
        """The first of them."""
        file.seek(0)
        start = file.read(4)
        if (start == ZIP_MARK and path.suffix.lower() == ".zip") or start.startswith(GZIP_MARK):
            raise BadSheet("it is packed. Unpack it first, and name the file that is in it")
        self._is_parquet = start == PARQUET_MARK

    def companies(self, progress: BuildProgress | None = None) -> Iterator[FileCompany]:
        """Yield the companies. Rows without an id or a name, and rows that are broken, are counted and left out."""
        for line, columns, cells, share in self._parquet() if self._is_parquet else self._csv():
            self.rows += 1
            try:
                yield columns.company(cells)
            except SkippedRow as error:
                self._skip(line, error.reason)
            if progress is not None and self.rows % STEP == 0:
                progress(self.rows, share())
        if progress is not None:
            progress(self.rows, 1.0)

    def _skip(self, line: int, reason: str) -> None:
        self.skipped[reason] += 1
        if len(self.skipped_lines) < FIRST_LINES:
            self.skipped_lines.append(line)

    def _csv(self) -> "Iterator[tuple[int, CompanyColumns, list[str], Callable[[], float]]]":
        sheet = Sheet(self._file)
        columns = find_columns(sheet.header, self._columns)
        size = max(self.path.stat().st_size, 1)

        def share() -> float:
            return min(self._file.tell() / size, 1.0)

        def broken(line: int) -> None:
            self.rows += 1
            self._skip(line, "broken")

        for row in sheet.rows(broken):
            yield row.line, columns, row.cells, share
        sheet.check_unchanged()

    def _parquet(self) -> "Iterator[tuple[int, CompanyColumns, list[str], Callable[[], float]]]":
        header, total, batches = _parquet_reader(self.path)
        columns = find_columns(header, self._columns)
        done = 0

        def share() -> float:
            return min(done / max(total, 1), 1.0)

        wanted = columns.places
        for batch in batches([header[place] for place in wanted]):
            for values in batch:
                done += 1
                cells = [""] * len(header)
                for place, value in zip(wanted, values, strict=True):
                    cells[place] = _cell(value)
                yield done, columns, cells, share


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case list() | tuple():
            return "|".join(_cell(each) for each in value)
    return str(value)


Batches = Callable[[list[str]], Iterator[list[tuple[Any, ...]]]]
"""Takes names of columns. Yields rows, some at a time."""


def _parquet_reader(path: Path) -> tuple[list[str], int, Batches]:
    """Return the names of the columns, the number of rows, and a reader."""
    if find_spec("pyarrow") is None and find_spec("polars") is None:
        raise BadSheet(
            "it is a Parquet file. Install pyarrow or polars to read it (pip install pyarrow), or save it as CSV"
        )
    try:
        return _by_pyarrow(path) if find_spec("pyarrow") is not None else _by_polars(path)
    except BadSheet:
        raise
    except Exception as error:
        raise BadSheet(f"it is no Parquet file that can be read: {type(error).__name__}. Write it again") from None


def _by_pyarrow(path: Path) -> tuple[list[str], int, Batches]:
    file = import_module("pyarrow.parquet").ParquetFile(path)

    def batches(columns: list[str]) -> Iterator[list[tuple[Any, ...]]]:
        for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=columns):
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield list(zip(*(by_name[name].to_pylist() for name in columns), strict=True))

    return list(file.schema_arrow.names), file.metadata.num_rows, batches


def _by_polars(path: Path) -> tuple[list[str], int, Batches]:
    polars = import_module("polars")
    scan = polars.scan_parquet(path)
    total = scan.select(polars.len()).collect().item()

    def batches(columns: list[str]) -> Iterator[list[tuple[Any, ...]]]:
        for start in range(0, total, PARQUET_ROWS):
            yield scan.select(columns).slice(start, PARQUET_ROWS).collect().rows()

    return list(scan.collect_schema().names()), total, batches
