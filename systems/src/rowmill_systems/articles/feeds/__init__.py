"""Feeds: fetched, parsed, found and exchanged."""
