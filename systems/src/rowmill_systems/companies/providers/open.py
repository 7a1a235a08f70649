"""Open the providers that the settings name."""

import rowmill as rm
from rowmill_systems.companies.providers.eqc import EqcProvider
from rowmill_systems.companies.providers.file import FileProvider
from rowmill_systems.companies.providers.port import CompanyProvider
from rowmill_systems.companies.providers.reconciliation import ReconciliationProvider
from rowmill_systems.companies.settings import CompaniesSettings

EQC, FILE = "eqc", "file"


def open_providers(settings: CompaniesSettings) -> list[CompanyProvider]:
    """Return the providers of WDH_PROVIDERS, in their order. Nothing is asked and no file is read before a lookup.

    A provider that is named and not set up is left out: eqc without WDH_EQC_BASE_URL, file without
    WDH_COMPANIES_FILE. Raises DeclarationError, which lists all that is wrong, for an unknown name, an address that is
    none, or a token that is missing.
    """
    found: list[CompanyProvider] = []
    problems: list[str] = []
    for name in dict.fromkeys(each.strip() for each in settings.providers.split(",") if each.strip()):
        try:
            provider = _open(name, settings)
        except rm.errors.DeclarationError as error:
            problems += error.problems
        else:
            found += [provider] if provider is not None else []
    if problems:
        for each in found:
            each.close()
        raise rm.errors.DeclarationError("companies", problems, kind="providers of")
    return found


def _open(name: str, settings: CompaniesSettings) -> CompanyProvider | None:
    if name == EQC:
        if not settings.eqc_base_url:
            return None
        return EqcProvider(
            settings.eqc_base_url,
            settings.eqc_token.get_secret_value(),
            timeout_seconds=settings.eqc_timeout_seconds,
            search_path=settings.eqc_search_path,
            keyword=settings.eqc_keyword,
            token_header=settings.eqc_token_header,
            contact=settings.contact,
            concurrency=settings.eqc_concurrency,
        )
    if name == FILE:
        if settings.companies_file is None:
            return None
        return FileProvider(
            settings.companies_file, columns=settings.companies_columns, index_dir=settings.companies_index_dir
        )
    if name in settings.reconciliation:
        return ReconciliationProvider(
            name,
            settings.reconciliation[name],
            type=settings.reconciliation_types.get(name),
            properties=settings.reconciliation_properties.get(name),
            contact=settings.contact,
        )
    known = ", ".join((EQC, FILE, *settings.reconciliation))
    problem = (
        f"WDH_PROVIDERS names {name}. It may name: {known}; others need an address: "
        f'WDH_RECONCILIATION=\'{{"{name}": "https://…"}}\''
    )
    raise rm.errors.DeclarationError(name, [problem], kind="provider")
