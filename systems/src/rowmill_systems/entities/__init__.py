"""Entities: names are linked to knowledge bases in the background and enriched with their facts; people decide
conflicts."""
