"""Entities over HTTP."""
