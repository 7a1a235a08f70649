"""Broken and hostile files."""

import io
import zipfile
from pathlib import Path

from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

ZEROS = 300 * 1024 * 1024


def odd_files(folder: Path, twin_of: Path) -> dict[str, str]:
    """Write the files. Return what must become of each: a state, or an error code."""
    (folder / f"copy-of-{twin_of.name}").write_bytes(twin_of.read_bytes())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog")
    (folder / "locked.pdf").write_bytes(locked())
    (folder / "bomb.docx").write_bytes(bomb())
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 40)
    return {
        f"copy-of-{twin_of.name}": "completed",
        "broken.pdf": "corrupt",
        "locked.pdf": "encrypted",
        "bomb.docx": "too_large",
        "noise.bin": "unsupported",
    }


def locked() -> bytes:
    written = io.BytesIO()
    page = Canvas(written, encrypt=StandardEncryption("secret", strength=128))
    page.drawString(72, 720, "You can't read this")
    page.save()
    return written.getvalue()


def bomb() -> bytes:
    """Return a document of 300 MB, compressed to 300 kB."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w", force_zip64=True) as entry:
            for _ in range(ZEROS // 2**20):
                entry.write(bytes(2**20))
    return written.getvalue()
