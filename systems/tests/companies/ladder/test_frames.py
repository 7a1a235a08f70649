"""Frames of pandas and Polars get ids, rungs and confidences for their rows."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.frames import FrameRefused, resolve_frame
from rowmill_systems.companies.mappings import CompanyMappingRepository, alias_of
from rowmill_systems.companies.resolver import CompanyIdResolver
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import normalize_for_temp_id, temp_id
from systems.tests.companies.ladder.conftest import SALT, PreparedChain

MakeFrame = Callable[[dict[str, list[Any]]], Any]


@pytest.fixture(params=["pandas", "polars"])
def frame_of(request: pytest.FixtureRequest) -> MakeFrame:
    library = pytest.importorskip(request.param)
    made: MakeFrame = library.DataFrame
    return made


@pytest.fixture
def resolver(connection: sa.Connection, settings: CompaniesSettings) -> CompanyIdResolver:
    mappings = CompanyMappingRepository(connection, settings)
    mappings.store_mapping("company_name", alias_of("company_name", "Acme Ltd"), "C1", confidence=0.75)
    mappings.store_mapping("plan_code", "815", "C2")
    mappings.store_mapping("account_name", alias_of("account_name", "Beta account"), "C3")
    mappings.store_mapping("account_number", "0042", "C4")
    return CompanyIdResolver(connection, settings, salt=SALT)


def cells(frame: Any, column: str) -> list[Any]:
    """With None for missing values of any kind."""
    values = frame[column].tolist() if hasattr(frame[column], "tolist") else frame[column].to_list()
    return [None if value is None or value != value else value for value in values]


def temporary(name: str) -> str:
    return temp_id(normalize_for_temp_id(name), SALT)


def test_each_row_gets_its_id_rung_and_confidence(frame_of: MakeFrame, resolver: CompanyIdResolver) -> None:
    frame = frame_of({"customer": ["ACME Limited", None, "Nobody", "Acme Ltd", "", "Nobody"], "row": list(range(6))})
    found = resolve_frame(frame, column="customer", resolver=resolver)
    assert type(found) is type(frame)
    assert list(found.columns) == ["customer", "row", "company_id", "company_id_rung", "company_id_confidence"]
    assert list(frame.columns) == ["customer", "row"], "the frame itself stays as it is"
    assert cells(found, "row") == list(range(6))
    assert cells(found, "company_id") == ["C1", None, temporary("Nobody"), "C1", None, temporary("Nobody")]
    assert cells(found, "company_id_rung") == ["company_name", "none", "queue", "company_name", "none", "queue"]
    assert cells(found, "company_id_confidence") == [0.75, None, None, 0.75, None, None]
    assert resolver.counts.reasons["blank_name"] == 2


def test_codes_in_other_columns_are_stronger(frame_of: MakeFrame, resolver: CompanyIdResolver) -> None:
    frame = frame_of(
        {
            "name": ["Acme Ltd", "Acme Ltd", "Some", "Acme Ltd", None, "Acme Ltd"],
            "plan": [815.0, None, None, 7.0, None, 815.0],
            "number": [None, "0042", None, None, None, None],
            "account": [None, None, "BETA  account", None, "beta account", None],
        }
    )
    found = resolve_frame(
        frame,
        column="name",
        plan_code="plan",
        account_number="number",
        account_name="account",
        into="firm",
        resolver=resolver,
    )
    assert cells(found, "firm") == ["C2", "C4", "C3", "C1", "C3", "C2"]
    rungs = ["plan_code", "account_number", "account_name", "company_name", "account_name", "plan_code"]
    assert cells(found, "firm_rung") == rungs
    assert resolver.counts.names == 5, "equal rows are resolved once"


def test_names_are_asked_once(frame_of: MakeFrame, connection: sa.Connection, settings: CompaniesSettings) -> None:
    chain = PreparedChain({})
    resolver = CompanyIdResolver(connection, settings, salt=SALT, providers=chain)
    resolve_frame(frame_of({"name": ["Delta", "DELTA", "Delta"] * 100}), column="name", resolver=resolver)
    assert chain.asked == ["Delta"]


def test_an_empty_frame_gets_the_columns(frame_of: MakeFrame, resolver: CompanyIdResolver) -> None:
    frame = frame_of({"name": ["x"], "plan": ["y"]})[:0]
    for codes in ({}, {"plan_code": "plan"}):
        found = resolve_frame(frame, column="name", resolver=resolver, **codes)
        assert len(found) == 0
        assert list(found.columns)[-3:] == ["company_id", "company_id_rung", "company_id_confidence"]


def test_a_frame_without_any_name_is_answered(frame_of: MakeFrame, resolver: CompanyIdResolver) -> None:
    found = resolve_frame(frame_of({"name": [None, None]}), column="name", resolver=resolver)
    assert cells(found, "company_id") == [None, None]
    assert cells(found, "company_id_rung") == ["none", "none"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"column": "nam"}, "there is no column nam. The frame has: name, plan"),
        ({"column": "name", "plan_code": "plant"}, "there is no column plant"),
        ({"column": "name", "into": "plan"}, "there is a column plan already"),
    ],
)
def test_a_wrong_column_is_refused_with_those_that_are_there(
    frame_of: MakeFrame, resolver: CompanyIdResolver, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(FrameRefused, match=message):
        resolve_frame(frame_of({"name": ["Acme"], "plan": ["1"]}), resolver=resolver, **arguments)


def test_rows_keep_their_index_in_pandas(resolver: CompanyIdResolver) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["Acme Ltd", math.nan, "Acme Ltd"]}, index=[7, 7, 3])
    found = resolve_frame(frame, column="name", resolver=resolver)
    assert found.index.tolist() == [7, 7, 3]
    assert cells(found, "company_id") == ["C1", None, "C1"]


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_any_kind_of_text_column_will_do_in_pandas(resolver: CompanyIdResolver, kind: str) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": pandas.Series(["Acme Ltd", None, "Acme Ltd"], dtype=kind), "plan": [1, 2, 815]})
    assert cells(resolve_frame(frame, column="name", resolver=resolver), "company_id") == ["C1", None, "C1"]
    found = resolve_frame(frame, column="name", plan_code="plan", resolver=resolver)
    assert cells(found, "company_id") == ["C1", None, "C2"]


def test_one_column_may_be_name_and_account_name(frame_of: MakeFrame, resolver: CompanyIdResolver) -> None:
    frame = frame_of({"name": ["Acme Ltd", "Beta account"]})
    found = resolve_frame(frame, column="name", account_name="name", resolver=resolver)
    assert cells(found, "company_id") == ["C1", "C3"]


def test_two_columns_of_one_name_are_refused(resolver: CompanyIdResolver) -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", "b"]], columns=["name", "name"])
    with pytest.raises(FrameRefused, match="more than one column name"):
        resolve_frame(frame, column="name", resolver=resolver)


@pytest.mark.parametrize("other", [[{"name": "x"}], {"name": ["x"]}, None])
def test_what_is_no_frame_is_refused(resolver: CompanyIdResolver, other: object) -> None:
    with pytest.raises(FrameRefused, match="no DataFrame of pandas or Polars"):
        resolve_frame(other, column="name", resolver=resolver)


def test_a_lazy_frame_is_refused_with_the_fix(resolver: CompanyIdResolver) -> None:
    polars: Any = pytest.importorskip("polars")
    with pytest.raises(FrameRefused, match="collect"):
        resolve_frame(polars.LazyFrame({"name": ["x"]}), column="name", resolver=resolver)


def test_neither_library_is_imported_by_itself() -> None:
    code = "import sys, rowmill_systems.companies.frames as _; print({'pandas', 'polars'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
