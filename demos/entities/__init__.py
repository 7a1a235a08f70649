"""Demo of entities: a fictional world, and services that know it and misbehave."""
