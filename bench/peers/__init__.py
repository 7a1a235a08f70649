"""Programs that are measured, each with the verbs of `bench.peers.kit`. Who they are stands in `known`."""
