"""Draw on a PDF page, from top to bottom."""

from io import BytesIO

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

A4 = (595.0, 842.0)
MARGIN = 50.0
CHINESE_FONT = "STSong-Light"


class Pen:
    def __init__(self, language: str, size: tuple[float, float] = A4) -> None:
        self.buffer = BytesIO()
        # Invariant: the same seed makes the same bytes.
        self.canvas = Canvas(self.buffer, pagesize=size, invariant=1)
        self.width, self.height = size
        self.y = self.height - MARGIN
        self.chinese = language == "zh"
        if self.chinese:
            pdfmetrics.registerFont(UnicodeCIDFont(CHINESE_FONT))

    def font(self, size: float, *, bold: bool = False) -> str:
        name = CHINESE_FONT if self.chinese else "Helvetica-Bold" if bold else "Helvetica"
        self.canvas.setFont(name, size)
        return name

    def text(
        self, x: float, text: str, size: float = 10, *, bold: bool = False, align: str = "left", y: float | None = None
    ) -> None:
        self.font(size, bold=bold)
        draw = {
            "left": self.canvas.drawString,
            "right": self.canvas.drawRightString,
            "centre": self.canvas.drawCentredString,
        }[align]
        draw(x, self.y if y is None else y, text)

    def line(self, x: float, text: str, size: float = 10, *, bold: bool = False, align: str = "left") -> None:
        self.text(x, text, size, bold=bold, align=align)
        self.down(size * 1.35)

    def block(
        self, x: float, lines: list[str], size: float = 10, *, y: float | None = None, align: str = "left"
    ) -> float:
        """Draw lines below each other, from here or from `y`. Return where they end."""
        at = self.y if y is None else y
        for text in lines:
            self.text(x, text, size, align=align, y=at)
            at -= size * 1.35
        return at

    def paragraph(self, x: float, text: str, right: float, size: float = 10) -> None:
        """Draw words wrapped between two edges. Line breaks are kept."""
        name = self.font(size)
        for part in text.split("\n"):
            words, line = part.split(" "), ""
            for word in words:
                longer = f"{line} {word}".strip()
                if line and pdfmetrics.stringWidth(longer, name, size) > right - x:
                    self.line(x, line, size)
                    line = word
                else:
                    line = longer
            self.line(x, line, size)

    def rule(self, left: float, right: float) -> None:
        self.canvas.setLineWidth(0.5)
        self.canvas.line(left, self.y + 8, right, self.y + 8)

    def down(self, by: float) -> None:
        self.y -= by

    def bytes(self) -> bytes:
        self.canvas.showPage()
        self.canvas.save()
        return self.buffer.getvalue()
