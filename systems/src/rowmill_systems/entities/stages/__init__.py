"""What a worker does with an entity: link, enrich, save. The rest is Rowmill's."""
