"""Ask providers before a pipeline's transaction begins.

answers = prefetch_answers(companies, rows, run.chain)
with companies.engine.begin() as connection:
    resolver = CompanyIdResolver(connection, companies.settings, salt=companies.salts.current, prefetched=answers)
    resolver.resolve(rows)
"""

from collections.abc import Iterable

from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import CallBudget, ProviderChain
from rowmill_systems.companies.resolver import CompanyIdResolver, GivenRow, PrefetchedAnswers, ask_providers


def prefetch_answers(
    companies: Companies, rows: Iterable[GivenRow], chain: ProviderChain, budget: CallBudget | None = None
) -> PrefetchedAnswers:
    """Look up the names that neither mappings nor the cache know, within `budget` or WDH_EQC_SYNC_BUDGET calls.

    No transaction is open while providers are asked, and nothing is written: a resolver that gets the answers stores
    them. Raises nothing that a provider does.
    """
    settings = companies.settings
    with companies.engine.connect() as plain:
        connection = plain.execution_options(rowmill_reads=True)  # SQLite: without the lock for writing
        resolver = CompanyIdResolver(connection, settings, salt=companies.salts.current, keep_counts=False)
        unknown = resolver.unknown(rows)
        connection.rollback()
    if not unknown:
        return PrefetchedAnswers()
    return ask_providers(chain, unknown, budget or CallBudget(settings.eqc_sync_budget))
