"""Choose an OCR engine."""

from importlib.util import find_spec
from typing import Literal

from rowmill_systems.parts.documents.ocr.engine import Ocr
from rowmill_systems.parts.documents.ocr.rapid import RapidOcr
from rowmill_systems.parts.documents.ocr.tesseract import Tesseract

OcrName = Literal["auto", "tesseract", "rapidocr", "off"]


def choose(name: OcrName) -> Ocr | None:
    """Return the OCR engine of this name.

    `auto` is tesseract if it is installed, since it is twice as fast; otherwise RapidOCR; otherwise None, and pages
    without a text layer have no text. Raises LookupError if an engine is named and not installed.
    """
    tesseract, rapid = Tesseract.installed(), find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None
    match name:
        case "off":
            return None
        case "auto":
            return Tesseract() if tesseract else RapidOcr() if rapid else None
        case "tesseract" if tesseract:
            return Tesseract()
        case "rapidocr" if rapid:
            return RapidOcr()
    raise LookupError(f"{name} is not installed. Install tesseract, or: pip install 'rowmill-systems[ocr]'")
