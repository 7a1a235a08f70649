"""Convert the score of a candidate to a probability."""

from itertools import pairwise

# Read off the tuned papers, clean and scanned together, and lowered a little: those papers are tidy.
KNOTS = ((0.0, 0.0), (0.3, 0.4), (0.5, 0.55), (0.6, 0.78), (0.7, 0.91), (0.8, 0.95), (0.9, 0.97), (1.0, 0.99))
# OCR takes one digit for another, and nothing but check digits would tell.
SCANNED = 0.96


def confidence(score: float, *, scanned: bool) -> float:
    """Return how often suggestions with such a score are right, from 0 to 1. Monotonic."""
    for (low, at_low), (high, at_high) in pairwise(KNOTS):
        if score <= high:
            share = (max(score, low) - low) / (high - low)
            return round((at_low + share * (at_high - at_low)) * (SCANNED if scanned else 1.0), 3)
    return KNOTS[-1][1]
