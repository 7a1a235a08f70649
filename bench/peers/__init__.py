"""The programs that are measured, each with the commands of `bench.peers.kit`. `known` lists them."""
