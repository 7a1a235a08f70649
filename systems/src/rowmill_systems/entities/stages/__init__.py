"""The stages of an entity: link, enrich, save."""
