"""Rowmill inside other tools. Each module needs the tool it is named after."""
