"""Cut the endings of words, so that a query for `wings` finds `wing`."""


def stem(word: str) -> str:
    """Return the word without its plural ending. Words of other alphabets, and short ones, stay as they are."""
    if len(word) < 4 or not word.isascii() or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]
