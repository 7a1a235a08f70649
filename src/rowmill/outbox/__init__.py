"""Events that are written with the change that they tell of, and dispatched afterwards, in order per aggregate."""
