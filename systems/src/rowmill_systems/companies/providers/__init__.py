"""Who knows companies: services and files that names are looked up in.

from rowmill_systems.companies.lookup import CallBudget, ProviderChain
from rowmill_systems.companies.providers.open import open_providers

chain = ProviderChain(open_providers(settings), accept_score=0.9, accept_gap=0.05)
for decision in chain.look_up(["Siemens AG"], CallBudget(1000)):
    print(decision.outcome, decision.company_id, decision.confidence)
chain.close()
"""
