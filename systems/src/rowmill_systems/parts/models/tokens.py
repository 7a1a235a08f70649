"""How many tokens a text has, without the tokenizer of its model."""


def estimate_tokens(text: str) -> int:
    """Return rather too many than too few: one token for three bytes."""
    return len(text.encode("utf-8", "replace")) // 3 + 1
