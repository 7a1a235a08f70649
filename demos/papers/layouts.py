"""Page layouts. Rules may be tuned on the first group; never on HELD_OUT."""

from collections.abc import Callable, Mapping

from demos.papers.paper import Sheet
from demos.papers.pen import MARGIN, Pen

LEFT, RIGHT = MARGIN, 545.0


def classic(sheet: Sheet) -> bytes:
    """A letterhead, the recipient in the window, facts on the right, bank details in the footer."""
    pen = Pen(sheet.language)
    if sheet.sender:
        pen.text(LEFT, sheet.sender[0], 15, bold=True)
        pen.block(RIGHT, sheet.contact, 8, align="right")
        pen.down(70)
        pen.line(LEFT, " · ".join(sheet.sender), 7)
        pen.down(6)
    top = pen.y
    for label, value in sheet.meta:
        if label:
            pen.text(340, f"{label}:", y=top)
        pen.text(450 if label else 340, value, y=top)
        top -= 14
    end = pen.block(LEFT, sheet.recipient)
    pen.y = min(top, end) - 24
    body(pen, sheet, others=True)
    columns(pen, sheet)
    return pen.bytes()


def ledger(sheet: Sheet) -> bytes:
    """Labels on the left, values right of them, parties too."""
    pen = Pen(sheet.language)
    pen.line(LEFT, sheet.title, 18, bold=True)
    pen.down(14)
    for label, lines in sides(sheet):
        pen.text(LEFT, label)
        pen.y = pen.block(190, lines)
        pen.down(6)
    for label, value in sheet.meta:
        pen.text(LEFT, label)
        pen.line(190 if label else LEFT, value)
        pen.down(2)
    pen.down(16)
    body(pen, sheet, title=False)
    for text in [*sheet.contact, *(line for column in sheet.footer[1:] for line in column)]:
        pen.line(LEFT, text, 8)
    return pen.bytes()


def grid(sheet: Sheet) -> bytes:
    """Both sides beside each other, facts in a grid with the label above the value."""
    pen = Pen(sheet.language)
    pen.line(LEFT, sheet.title, 20, bold=True)
    pen.down(16)
    ends = []
    for place, (label, lines) in enumerate(sides(sheet)):
        x = LEFT + (place % 3) * 180
        pen.text(x, label, 9, bold=True)
        ends.append(pen.block(x, lines, y=pen.y - 14))
    pen.y = min(ends, default=pen.y) - 20
    for start in range(0, len(sheet.meta), 3):
        for place, (label, value) in enumerate(sheet.meta[start : start + 3]):
            x = LEFT + place * 175
            pen.text(x, label, 8)
            pen.text(x, value, 10, y=pen.y - 13)
        pen.down(36)
    pen.down(6)
    body(pen, sheet, title=False)
    columns(pen, sheet, contact=True)
    return pen.bytes()


def modern(sheet: Sheet) -> bytes:
    """The sender on the right, `Label: value` in one piece, one line of details at the foot."""
    pen = Pen(sheet.language)
    end = pen.block(RIGHT, [*sheet.sender, *sheet.contact], 9, align="right")
    pen.line(LEFT, sheet.title, 22)
    pen.y = min(end, pen.y) - 20
    if sheet.recipient:
        if sheet.recipient_label:
            pen.line(LEFT, f"{sheet.recipient_label}:", bold=True)
        pen.y = pen.block(LEFT, sheet.recipient)
        pen.down(14)
    for label, value in sheet.meta:
        pen.line(LEFT, f"{label}: {value}" if label else value)
    pen.down(14)
    body(pen, sheet, title=False, others=True)
    foot = [line for column in sheet.footer[1:] for line in column]
    for place in range(0, len(foot), 3):
        pen.text(297, " · ".join(foot[place : place + 3]), 8, align="centre", y=64 - 4 * place)
    return pen.bytes()


def till(sheet: Sheet) -> bytes:
    """A strip of paper from a till."""
    pen = Pen(sheet.language, (270, 560))
    for text in [*sheet.sender, *sheet.contact, "", sheet.title]:
        pen.line(135, text, 9, align="centre")
    pen.down(6)
    for label, value in sheet.meta:
        pen.text(20, f"{label}:", 9)
        pen.line(250, value, 9, align="right")
    pen.down(8)
    table(pen, sheet, 20, 250, 8)
    totals(pen, sheet, 20, 250, 9)
    for text in sheet.outro:
        pen.line(135, text, 8, align="centre")
    return pen.bytes()


def sidebar(sheet: Sheet) -> bytes:
    """Held out: facts stacked in a column on the left, the rest on the right."""
    pen = Pen(sheet.language)
    top = pen.y - 90
    for label, value in sheet.meta:
        if label:
            pen.text(LEFT, label, 8, y=top)
        pen.text(LEFT, value, 10, y=top - 13)
        top -= 36
    pen.block(LEFT, sheet.contact, 7, y=top - 10)
    pen.line(215, sheet.title, 18, bold=True)
    for label, lines in sides(sheet):
        pen.line(215, label, 8, bold=True)
        pen.y = pen.block(215, lines)
        pen.down(8)
    pen.down(10)
    body(pen, sheet, title=False, left=215)
    columns(pen, sheet)
    return pen.bytes()


def banner(sheet: Sheet) -> bytes:
    """Held out: facts in one or two lines with bars between them; the address on the right."""
    pen = Pen(sheet.language)
    pen.line(297, sheet.sender[0] if sheet.sender else "", 16, bold=True, align="centre")
    pen.line(297, " | ".join([*sheet.sender[1:], *sheet.contact]), 8, align="centre")
    pen.down(24)
    if sheet.recipient_label and sheet.recipient:
        pen.line(340, sheet.recipient_label, 9)
    pen.y = pen.block(340, sheet.recipient) - 20
    pen.line(LEFT, sheet.title, 16)
    facts = [f"{label}: {value}" if label else value for label, value in sheet.meta]
    for place in range(0, len(facts), 3):
        pen.line(LEFT, " | ".join(facts[place : place + 3]), 9)
    pen.down(14)
    body(pen, sheet, title=False, others=True)
    columns(pen, sheet)
    return pen.bytes()


def stacked(sheet: Sheet) -> bytes:
    """Held out: everything in one column, each label on a line of its own above its value."""
    pen = Pen(sheet.language)
    pen.line(LEFT, sheet.title, 16, bold=True)
    pen.down(6)
    for label, lines in sides(sheet):
        pen.line(LEFT, label, 8)
        pen.y = pen.block(LEFT, lines, 9)
        pen.down(4)
    for label, value in sheet.meta:
        if label:
            pen.line(LEFT, label, 8)
        pen.line(LEFT, value, 9)
        pen.down(3)
    pen.down(8)
    body(pen, sheet, title=False)
    for text in [*sheet.contact, *(line for column in sheet.footer[1:] for line in column)]:
        pen.line(RIGHT, text, 8, align="right")
    return pen.bytes()


def sides(sheet: Sheet) -> list[tuple[str, list[str]]]:
    """Yield the parties with their labels; a letter has none."""
    both = [(sheet.sender_label, sheet.sender), (sheet.recipient_label, sheet.recipient), *sheet.others]
    return [(label, lines) for label, lines in both if lines]


def body(pen: Pen, sheet: Sheet, *, title: bool = True, others: bool = False, left: float = LEFT) -> None:
    if title and sheet.title:
        pen.line(left, sheet.title, 16, bold=True)
        pen.down(8)
    if others:
        for label, lines in sheet.others:
            pen.line(left, f"{label}:", bold=True)
            pen.y = pen.block(left, lines) - 8
    for text in sheet.intro:
        pen.paragraph(left, text, RIGHT)
        pen.down(6)
    pen.down(6)
    if sheet.rows:
        table(pen, sheet, left, RIGHT, 9)
        pen.down(4)
    totals(pen, sheet, 330, RIGHT, 10)
    pen.down(10)
    for text in sheet.outro:
        pen.paragraph(left, text, RIGHT)
        pen.down(4)


def table(pen: Pen, sheet: Sheet, left: float, right: float, size: float) -> None:
    """Draw a table: description on the left, numbers right-aligned."""
    step = (right - left) * 0.19
    edges = [right - step * place for place in range(len(sheet.columns) - 2, -1, -1)]
    for cells in [sheet.columns, *sheet.rows]:
        first, *more = cells[0].split("\n")
        pen.text(left, first, size, bold=cells is sheet.columns)
        for edge, cell in zip(edges, cells[1:], strict=True):
            pen.text(edge, cell, size, align="right", bold=cells is sheet.columns)
        pen.down(size * 1.5)
        for line in more:
            pen.line(left, line, size)


def totals(pen: Pen, sheet: Sheet, left: float, right: float, size: float) -> None:
    for place, (label, value) in enumerate(sheet.totals):
        bold = place == len(sheet.totals) - 1
        pen.text(left, label, size, bold=bold)
        pen.line(right, value, size, bold=bold, align="right")


def columns(pen: Pen, sheet: Sheet, *, contact: bool = False) -> None:
    for place, lines in enumerate([*sheet.footer, *([sheet.contact] if contact else [])]):
        pen.block(LEFT + place * (175 if len(sheet.footer) < 3 and not contact else 132), lines, 6.5, y=72)


TUNED: Mapping[str, Callable[[Sheet], bytes]] = {
    "classic": classic,
    "ledger": ledger,
    "grid": grid,
    "modern": modern,
    "till": till,
}
HELD_OUT: Mapping[str, Callable[[Sheet], bytes]] = {"sidebar": sidebar, "banner": banner, "stacked": stacked}
