"""Texts and queries are split into the same terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.knowledge.search.fulltext import SCOPE
from rowmill_systems.knowledge.search.highlights import highlights
from rowmill_systems.knowledge.search.query import MOST_TERMS, query_terms
from rowmill_systems.knowledge.search.terms import LONGEST, terms_of


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ISO-9001", ["iso", "9001", "iso9001"]),
        ("ISO9001", ["iso", "9001", "iso9001"]),
        ("3.14", ["3", "14", "314"]),
        ("ÉCOLE e\u0301cole ｅｃｏｌｅ", ["ecol"] * 3),
        ("Straße STRASSE", ["strass"] * 2),
        ("l'avion company's", ["avion", "compani"]),
        ("C++ C# .NET", ["c++", "c", "c#", "c", "net"]),
        ("水道水", ["水道", "道水", "水"]),
        ("हिन्दी", ["हिन्दी"]),
        ("٣٤", ["34"]),
        ("a/b/c/d/e/f/g", ["a", "b", "c", "d", "e", "f", "g"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zerowidth"]),
        ("!? — \n\x00", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert list(terms_of(text)) == terms


@pytest.mark.parametrize(
    "forms",
    ["wing wings winged", "heat heating heated heats", "study studies studied", "class classes", "aerodynamic "
     "aerodynamics aerodynamical", "equation equations", "run running"],
)  # fmt: skip
def test_forms_of_a_word_are_one_term(forms: str) -> None:
    assert len(set(terms_of(forms))) == 1


@given(st.text(max_size=200))
def test_terms_need_no_quoting_in_either_index(text: str) -> None:
    for term in terms_of(text):
        assert 0 < len(term) <= LONGEST
        assert not set("'\"\\ \t\n\r\f\v\x00") & set(term)
        assert term.isprintable() or not term.isascii()


@given(st.text(max_size=200), st.text(max_size=40))
def test_highlights_are_inside_the_text_and_apart(text: str, query: str) -> None:
    ends = [place for span in highlights(text, query_terms(query)) for place in span]
    assert ends == sorted(ends)
    assert all(0 <= place <= len(text) for place in ends)


def test_a_query_keeps_what_tells_texts_apart() -> None:
    assert query_terms("What is the load of a crane?") == ("load", "cran")
    assert query_terms("To be or to be?") == ("to", "be", "or")
    assert len(query_terms(" ".join(f"word{n}x" for n in range(100)))) == MOST_TERMS
    assert SCOPE + LONGEST < 2046, "the longest lexeme of PostgreSQL"
