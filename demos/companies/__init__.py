"""A demo of companies: names of a pipeline get ids, through a service that misbehaves and workers that are killed."""
