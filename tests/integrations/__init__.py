"""Rowmill inside other tools."""
