"""What an OCR engine is to the rest: an image in, lines with places out."""

from typing import Protocol

from PIL import Image

from rowmill_systems.parts.documents.document import Line


class Ocr(Protocol):
    name: str
    """As it stands in the facts of a document."""

    def read(self, image: Image.Image) -> tuple[Line, ...]:
        """The lines of an RGB image, from top to bottom; none if there is no text in it.

        OcrFailed if the engine could not do its work: that is not the document's fault.
        """
        ...
