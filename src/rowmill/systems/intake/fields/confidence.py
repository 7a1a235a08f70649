"""From the score of a candidate to how often such a suggestion is right."""


def confidence(score: float) -> float:
    return round(max(0.0, min(1.0, score)), 3)
