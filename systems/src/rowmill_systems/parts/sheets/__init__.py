"""Read CSV files of any size, in any encoding and with any delimiter.

    from tempfile import TemporaryFile
    from rowmill_systems.parts.sheets import Sheet, place_of

    with TemporaryFile() as file:
        file.write("Name;Ort\\nMüller;Köln\\n".encode("cp1252"))
        sheet = Sheet(file)
        name = place_of(sheet.header, "name")
        assert [row.cells[name] for row in sheet.rows()] == ["Müller"]

`BadSheet` says what is wrong with a file, and what to do. `read_lines` goes on behind a line that is no CSV.
"""

from rowmill_systems.parts.sheets.errors import BadSheet
from rowmill_systems.parts.sheets.lines import BadLine, read_lines
from rowmill_systems.parts.sheets.sheet import Row, Sheet, place_of

__all__ = ["BadLine", "BadSheet", "Row", "Sheet", "place_of", "read_lines"]
