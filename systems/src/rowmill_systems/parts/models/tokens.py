"""How many tokens a text has, without the tokenizer of its model."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few: one for three bytes."""
    return len(text.encode("utf-8", "replace")) // 3 + 1
