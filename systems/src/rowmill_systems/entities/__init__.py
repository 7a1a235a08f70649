"""Entities: linked to knowledge bases in the background, enriched by what these know, conflicts kept for a person."""
