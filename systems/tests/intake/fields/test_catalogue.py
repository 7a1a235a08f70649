from pathlib import Path

import pytest

from rowmill_systems.intake.fields.catalogue import Catalogue, Field, FieldType
from rowmill_systems.intake.fields.loading import BadCatalogue, load_catalogue


def test_the_default_catalogue_knows_the_documents_of_an_office() -> None:
    catalogue = load_catalogue()
    for doc_type in ("invoice", "purchase_order", "delivery_note", "contract", "receipt", "letter"):
        assert len(catalogue.for_type(doc_type)) < len(catalogue.fields)
    assert {field.type for field in catalogue.fields} == set(FieldType)


def test_an_unknown_type_has_all_fields() -> None:
    catalogue = load_catalogue()
    assert catalogue.for_type("menu") == catalogue.for_type(None) == catalogue.fields


def test_a_file_of_one_s_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[labels]\nignore = ["Sub"]\n[[field]]\nkey = "mass"\ntype = "number"\nsynonyms = ["Gewicht"]\n')
    assert load_catalogue(path) == Catalogue((Field("mass", "mass", FieldType.NUMBER, ("Gewicht",)),), ("Sub",))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("key = ", "is not TOML"),
        ("", "has no fields"),
        ('field = "x"', "has no fields"),
        ("[[field]]\n", "field 1: key must be"),
        ('[[field]]\nkey = "No Good"\n', "field 1: key must be"),
        ('[[field]]\nkey = "a"\ntype = "colour"\n', r"\(a\): type must be one of text, number"),
        ('[[field]]\nkey = "a"\ncolour = 1\n', r"\(a\): unknown colour"),
        ('[[field]]\nkey = "a"\nsynonyms = "b"\n', "synonyms must be a list of texts"),
        ('[[field]]\nkey = "a"\nmany = 1\n', "many true or false"),
        ('[[field]]\nkey = "a"\ntype = "table"\n', "a table needs its columns"),
        ('[[field]]\nkey = "a"\n[[field]]\nkey = "a"\n', "two fields have the key a"),
        ('labels = 1\n[[field]]\nkey = "a"\n', "labels must be a table"),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_the_mistake(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadCatalogue, match=complaint):
        load_catalogue(path)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCatalogue, match="cannot be read"):
        load_catalogue(tmp_path / "none.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# \xff")
    with pytest.raises(BadCatalogue, match="not UTF-8"):
        load_catalogue(path)
