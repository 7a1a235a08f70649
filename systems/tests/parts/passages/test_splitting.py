"""Documents become passages by their structure, and nothing of them is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word
from rowmill_systems.parts.models import estimate_tokens
from rowmill_systems.parts.passages import Passage, split
from rowmill_systems.parts.passages.units import sentences

ALPHABET = "ab .,\t-#*1。起重机ไทยعر\u0301😀\u2028'"


def document(*pages: str, title: str = "") -> Document:
    made = tuple(Page(n, tuple(map(Line, text.split("\n"))), title=title) for n, text in enumerate(pages, 1))
    return Document(Kind.TEXT, "text/plain", made)


def passages(*pages: str, most: int = 64) -> list[Passage]:
    return list(split(document(*pages), most_tokens=most))


def texts(*pages: str, most: int = 64) -> list[str]:
    return [passage.text for passage in passages(*pages, most=most)]


def letters(text: str) -> list[str]:
    return [sign for sign in text if not sign.isspace()]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(ALPHABET, max_size=300), max_size=3), st.integers(32, 60))
def test_every_character_is_in_a_passage_that_is_short_enough(pages: list[str], most: int) -> None:
    found = list(split(document(*pages), most_tokens=most))
    for number, text in enumerate(pages, 1):
        here = "".join(passage.text for passage in found if passage.page == number)
        rest = iter(letters(here))
        assert all(sign in rest for sign in letters(text)), "in order; headers of tables come again"
    assert all(passage.text.strip() and passage.tokens <= most for passage in found)
    assert found == list(split(document(*pages), most_tokens=most)), "the same every time"


def test_a_passage_stands_under_its_headings() -> None:
    found = passages("# Guide\n## Safety\nStand back.\n## Use\nPull.\n# Care", "Wash it.")
    assert [(each.page, each.heading, each.text) for each in found] == [
        (1, "Guide > Safety", "# Guide\n## Safety\nStand back."),
        (1, "Guide > Use", "## Use\nPull."),
        (1, "Care", "# Care"),
        (2, "Care", "Wash it."),
    ]


def test_headings_are_known_by_number_name_script_and_height() -> None:
    text = "2.1 Loads\nOne.\nAnnex B\nTwo.\n第二章 起重\n三。\nSAFETY FIRST\nFour."
    assert [each.heading for each in passages(text)] == [
        "2.1 Loads", "Annex B", "第二章 起重", "第二章 起重 > SAFETY FIRST"
    ]  # fmt: skip

    def line(text: str, height: float) -> Line:
        return Line(text, (Word(text, Box(0, 0.1, 1, 0.1 + height)),))

    page = Page(1, (line("Cranes", 0.04), line("They lift.", 0.02), line("They turn.", 0.02)))
    [found] = split(Document(Kind.PDF, "application/pdf", (page,)), most_tokens=64)
    assert found.heading == "Cranes"


def test_numbered_items_are_a_list_and_no_headings() -> None:
    [found] = passages("Do this:\n1. Lift\n2. Turn\n3. Lower")
    assert found.heading == ""


def test_a_split_table_has_its_header_in_each_passage() -> None:
    rows = [f"LTM-{n}\t{n} tons" for n in range(40)]
    found = texts("\n".join(["Model\tLoad", *rows]))
    assert len(found) > 2
    assert all(text.startswith("Model\tLoad\n") for text in found)
    assert [line for text in found for line in text.split("\n")[1:]] == rows, "rows are whole, each once"


def test_a_table_without_names_of_columns_has_no_header() -> None:
    found = texts("\n".join(f"{n}\t{n * n}" for n in range(100)))
    assert sum(text.count("0\t0\n") for text in found) == 1


def test_a_list_stays_together_with_what_introduces_it() -> None:
    filler = "Cranes lift loads and turn around slowly while everybody watches. " * 2
    items = "\n".join(f"- step number {n} of the list" for n in range(4))
    found = texts(f"{filler}\nFollow these steps:\n{items}", most=64)
    assert found[-1] == f"Follow these steps:\n{items}"


def test_sentences_are_not_cut_where_lines_break() -> None:
    lines = ["The crane that stands beside the harbour lifts heavy", "loads every day of the year. The whale swims",
             "through the sea and sings, as whales of this kind do.", "The third sentence is here."]  # fmt: skip
    found = texts("\n".join(lines), most=40)
    assert all(text.endswith(".") for text in found)
    assert len(found) > 1


def test_sentences_end_in_many_scripts_and_not_at_abbreviations() -> None:
    assert list(sentences("See Fig. 3, e.g. this. Next!")) == ["See Fig. 3, e.g. this. ", "Next!"]
    assert list(sentences("起重机。鲸鱼！")) == ["起重机。", "鲸鱼！"]
    assert list(sentences("هل هذا؟ نعم.")) == ["هل هذا؟ ", "نعم."]


def test_a_word_without_end_is_cut_within_bounds() -> None:
    found = texts("x" * 200_000, most=256)
    assert "".join(found) == "x" * 200_000
    assert max(map(estimate_tokens, found)) <= 256


def test_the_name_of_a_sheet_stays_with_its_passages() -> None:
    [found] = split(document("a\tb", title="Loads"), most_tokens=64)
    assert (found.page, found.page_title) == (1, "Loads")
