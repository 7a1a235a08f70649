"""Knowledge bases that are asked: the embedded one, Wikidata, DBpedia, and services of the Reconciliation API."""
