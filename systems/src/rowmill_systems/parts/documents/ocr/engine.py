"""What an OCR engine offers: an image in, lines with places out."""

from typing import Protocol

from PIL import Image

from rowmill_systems.parts.documents.document import Line


class Ocr(Protocol):
    name: str
    """As it appears in the facts of a document."""

    def read(self, image: Image.Image) -> tuple[Line, ...]:
        """Return the lines of an RGB image, from top to bottom; none if it has no text.

        Raises OcrFailed if the engine fails.
        """
        ...
