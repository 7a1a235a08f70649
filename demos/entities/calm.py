"""What entities would be linked to by services that are always well: what a run through outages is held against."""
