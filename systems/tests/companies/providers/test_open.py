"""Which providers the settings open."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.companies.providers.eqc import EqcProvider
from rowmill_systems.companies.providers.file import FileProvider
from rowmill_systems.companies.providers.open import open_providers
from rowmill_systems.companies.providers.reconciliation import ReconciliationProvider
from rowmill_systems.companies.settings import CompaniesSettings

EQC: dict[str, Any] = {"eqc_base_url": "https://eqc.example", "eqc_token": SecretStr("planted-token")}


def test_providers_are_opened_in_their_order(tmp_path: Path) -> None:
    settings = CompaniesSettings(
        providers="file, gleif,eqc,file",
        companies_file=tmp_path / "companies.csv",
        reconciliation={"gleif": "https://gleif.example/api"},
        reconciliation_types={"gleif": "company"},
        reconciliation_properties={"gleif": {"country": "DE"}},
        **EQC,
    )
    found = open_providers(settings)
    assert [type(each) for each in found] == [FileProvider, ReconciliationProvider, EqcProvider]
    assert [each.name for each in found] == ["file", "gleif", "eqc"]
    query = found[1]._query  # type: ignore[attr-defined]
    assert query == {"limit": 10, "type": "company", "properties": [{"pid": "country", "v": "DE"}]}
    for each in found:
        each.close()


def test_what_is_not_set_up_is_left_out() -> None:
    assert open_providers(CompaniesSettings(providers="eqc,file")) == []
    assert open_providers(CompaniesSettings(providers="")) == []


def test_all_problems_are_listed_at_once() -> None:
    settings = CompaniesSettings(
        providers="eqc,gleif,unknown", eqc_base_url="https://eqc.example", reconciliation={"gleif": "nowhere"}
    )
    with pytest.raises(rm.errors.DeclarationError) as caught:
        open_providers(settings)
    assert len(caught.value.problems) == 3
    text = str(caught.value)
    for part in ("WDH_EQC_TOKEN is empty", "WDH_RECONCILIATION is no address", "WDH_PROVIDERS names unknown"):
        assert part in text


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDH_EQC_BASE_URL", "https://eqc.example")
    monkeypatch.setenv("WDH_EQC_TOKEN", "planted-token")
    monkeypatch.setenv("WDH_COMPANIES_COLUMNS", '{"id": "a", "name": "b"}')
    settings = CompaniesSettings()
    assert settings.companies_columns == {"id": "a", "name": "b"}
    assert "planted-token" not in repr(settings)
    (provider,) = open_providers(settings)
    assert provider.name == "eqc"
    provider.close()
