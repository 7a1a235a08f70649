"""The tokens of the style sheet, and the words of its filters."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rowmill.web
from rowmill.web import shown

STYLE = (Path(rowmill.web.__file__).parent / "static" / "rowmill.css").read_text("utf-8")
TOKENS = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", STYLE))
TONES = ("info", "busy", "wait", "good", "bad", "plain")
PAIRS = [
    *((text, ground) for text in ("ink", "muted", "accent") for ground in ("canvas", "surface", "sunken")),
    *((tone, f"{tone}-soft") for tone in TONES),
    *((tone, "surface") for tone in TONES),
    ("ink", "accent-soft"), ("accent", "accent-soft"), ("muted", "accent-soft"), ("accent-ink", "accent"),
    ("canvas", "ink"), ("mark-ink", "mark"),
]  # fmt: skip


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read_on_its_ground(text: str, ground: str, theme: int) -> None:
    colours = [TOKENS[name].split(", ")[theme] for name in (text, ground)]
    assert contrast(*colours) >= 4.5, colours


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_the_edge_of_a_field_is_seen(theme: int) -> None:
    colours = [TOKENS[name].split(", ")[theme] for name in ("line-strong", "surface")]
    assert contrast(*colours) >= 3


def test_every_colour_is_a_token() -> None:
    rules = STYLE[STYLE.index("/* ---- Ground") :]
    assert re.findall(r"#[0-9a-f]{3,8}\b", rules) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"), (9, "just now"), (59, "59 seconds ago"), (60, "1 minute ago"), (7199, "1 hour ago"),
        (86_400 * 3, "3 days ago"), (86_400 * 40, "1 month ago"), (86_400 * 800, "2 years ago"), (-3, "in a moment"),
        (-90, "in 1 minute"),
    ],
)  # fmt: skip
def test_a_moment_is_told_in_words(seconds: int, words: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert shown.ago(now - timedelta(seconds=seconds), now) == words


def test_a_time_without_a_zone_is_utc() -> None:
    assert shown.exact(datetime(2026, 3, 1, 12)) == "2026-03-01 12:00:00 UTC"


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "0 %"), (0.001, "1 %"), (0.6, "60 %"), (0.98, "98 %"), (0.997, "99 %"), (1.0, "100 %")]
)
def test_only_all_of_it_is_a_hundred_percent(share: float, words: str) -> None:
    assert shown.percent(share) == words


def test_sixty_percent_does_not_look_like_ninety_eight() -> None:
    assert [shown.certainty(value) for value in (0.98, 0.9, 0.75, 0.6)] == ["sure", "sure", "likely", "unsure"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (45_000, "45 kB"), (3_400_000, "3.4 MB"), (7e9, "7.0 GB")],
)
def test_bytes_are_told_in_three_digits(number: int, words: str) -> None:
    assert shown.bytes_size(number) == words
