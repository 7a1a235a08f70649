"""The consistency lab of knowledge bases: three stores under faults, and a checker that reads all of them."""
