"""Linking: compare names, score candidates, choose one of them or none."""
