"""RapidOCR: installed by pip, with its models in its wheel. Imported with the first image, since it takes 60 MB."""

from typing import Any

from PIL import Image

from rowmill_systems.parts.documents.document import Box, Line, Word
from rowmill_systems.parts.documents.errors import OcrFailed, OutOfMemory
from rowmill_systems.parts.documents.layout import Spot, lines_of

THREADS = 2
LONGEST_SIDE = 3600
DETECTION_SIDE = 960
"""Lines are located in a copy whose longer side has so many pixels, and read from the full image.

Locating them in the full image takes half a gigabyte more, and finds no more.
"""


class RapidOcr:
    name = "rapidocr"

    def __init__(self) -> None:
        self._engine: Any = None

    def read(self, image: Image.Image) -> tuple[Line, ...]:
        import numpy as np

        # It takes arrays to be in OpenCV's order, and makes a copy for each step that is given a view.
        answer = self._ask(np.ascontiguousarray(np.asarray(image.convert("RGB"))[:, :, ::-1]))
        if getattr(answer, "txts", None) is None:
            # It eats errors of its own steps. If it found lines and answers no texts, not even unsure ones, it did so.
            if getattr(answer, "boxes", None) is not None:
                raise OcrFailed("rapidocr found lines and could not read them")
            return ()
        spots = []
        for text, corners in zip(answer.txts, answer.boxes, strict=True):
            (left, right), (top, bottom) = ((min(side), max(side)) for side in zip(*corners.tolist(), strict=True))
            spots += split_words(text, left, top, right, bottom, image.size)
        return lines_of(spots)

    def _ask(self, pixels: Any) -> Any:
        try:
            self._engine = self._engine or _load()
            return self._engine(pixels)
        except MemoryError as error:
            raise OutOfMemory("memory, in rapidocr") from error
        except Exception as error:
            raise OcrFailed("rapidocr") from error


def _load() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": LONGEST_SIDE,
            "EngineConfig.onnxruntime.intra_op_num_threads": THREADS,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            # An arena keeps what the largest page took, for ever.
            "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
            "Det.limit_type": "max",
            "Det.limit_side_len": DETECTION_SIDE,
            "Rec.rec_batch_num": 1,
        }
    )


def split_words(text: str, left: float, top: float, right: float, bottom: float, size: tuple[int, int]) -> list[Spot]:
    """Split a line into words. Only the place of the line is known: each word gets a share of it by its letters."""
    width, height = size
    share, spots, at = (right - left) / max(len(text), 1), [], 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        x1, x2 = left + start * share, left + at * share
        box = Box(
            *(round(min(max(part, 0.0), 1.0), 5) for part in (x1 / width, top / height, x2 / width, bottom / height))
        )
        spots.append(Spot(Word(word, box), x1, top, x2, bottom, (top + bottom) / 2))
    return spots
