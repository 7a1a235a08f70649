"""Knowledge bases to ask: one that is embedded, Wikidata, DBpedia, services of the Reconciliation API."""
