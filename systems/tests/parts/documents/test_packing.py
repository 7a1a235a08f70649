"""Documents become JSON and come back as they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.parts.documents.document import Box, Document, Kind, Line, Page, Word
from rowmill_systems.parts.documents.packing import from_json, to_json

parts = st.floats(0, 1)
words = st.builds(Word, st.text(min_size=1), st.builds(Box, parts, parts, parts, parts))
lines = st.builds(Line, st.text(), st.lists(words, max_size=4).map(tuple))
pages = st.builds(Page, st.integers(1), st.lists(lines, max_size=4).map(tuple), st.booleans(), st.text())
facts = st.dictionaries(st.text(), st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
documents = st.builds(
    Document, st.sampled_from(Kind), st.text(), st.lists(pages, max_size=3).map(tuple), st.none() | st.text(), facts
)


@given(documents)
def test_a_document_comes_back_as_it_was(document: Document) -> None:
    assert from_json(json.loads(json.dumps(to_json(document)))) == document


PACKED = to_json(Document(Kind.TEXT, "text/plain", (Page(1, (Line("a b", (Word("a", Box(0, 0, 1, 1)),)),)),)))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"kind": "exe"}, {"media_type": 7}, {"pages": 7}, {"pages": [{}]}, {"language": 7},
        {"facts": []}, {"facts": {"a": [1]}}, {"pages": [{**PACKED["pages"][0], "lines": [["a"]]}]},
        {"pages": [{**PACKED["pages"][0], "lines": [["a", [["a", 0, 0, 1]]]]}]},
        {"pages": [{**PACKED["pages"][0], "number": "1"}]}, {"pages": [{**PACKED["pages"][0], "title": None}]},
    ],
)  # fmt: skip
def test_what_is_not_a_packed_document_is_refused(change: dict[str, Any]) -> None:
    assert from_json(PACKED).pages[0].lines[0].words[0].text == "a"
    with pytest.raises(ValueError, match=r"not a|another version|not enough"):
        from_json({**PACKED, **change})
