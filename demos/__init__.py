"""Demos of Rowmill's systems. Not part of the wheel."""
