"""The embedded knowledge base as a service of the Reconciliation API 0.2, so that OpenRefine can ask it."""
