"""The process in which documents are read: one after another, until its pipe ends.

    python -m rowmill_systems.parts.documents.child <pid of the parent>

The first frame says what is allowed, each further one asks for something. Answers are frames, too.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import rowmill as rm
from rowmill_systems.parts.documents import confine
from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.documents.errors import OutOfMemory, ReaderDied
from rowmill_systems.parts.documents.frames import Frame, receive, send
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.choose import choose
from rowmill_systems.parts.documents.ocr.engine import Ocr
from rowmill_systems.parts.documents.packing import to_json
from rowmill_systems.parts.documents.pages import render_page
from rowmill_systems.parts.documents.read import read_document

THREADS = 2


def main() -> None:
    confine.die_with(int(sys.argv[1]))
    confine.ignore_signals()
    asked, answers = take_pipes()
    settings = receive(asked)
    if settings is None:
        return
    limits, ocr = DocumentLimits(**settings.said["limits"]), choose(settings.said["ocr"])
    confine.drop_rights(limits.memory)
    send(answers, Frame({"is": "ready"}))
    while frame := receive(asked):
        confine.allow_cpu(limits.seconds, THREADS)
        answer(frame, answers, limits, ocr)
        del frame  # the next file comes while this one would still be held


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the pipes for ourselves.

    What libraries print goes nowhere, and programs that they start can't read frames.
    """
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return asked, answers


def answer(frame: Frame, answers: BinaryIO, limits: DocumentLimits, ocr: Ocr | None) -> None:
    def progress(page: int, of_pages: int) -> None:
        send(answers, Frame({"is": "progress", "page": page, "of": of_pages}))

    said = frame.said
    try:
        match said["do"]:
            case "read":
                document = read_document(
                    frame.blob,
                    filename=said["filename"],
                    media_type=said["media_type"],
                    limits=limits,
                    ocr=ocr,
                    progress=progress,
                )
                send(answers, Frame({"is": "document", "document": to_json(document)}))
            case "render":
                picture = render_page(
                    frame.blob, Kind(said["kind"]), said["number"], width=said["width"], limits=limits
                )
                send(answers, Frame({"is": "picture"}, picture))
    except rm.errors.WorkError as error:
        send(answers, Frame(describe(error)))
    except MemoryError as error:
        send(answers, Frame(describe(OutOfMemory("memory"), error)))
    except Exception as error:
        send(answers, Frame(describe(ReaderDied("it raised"), error)))


def describe(error: rm.errors.WorkError, cause: BaseException | None = None) -> dict[str, Any]:
    """Describe an error by its classes and lines of code: its texts may quote the document."""
    causes = " < ".join(_chain(cause or error.__cause__))
    return {"is": "error", "class": type(error).__name__, "code": error.code, "text": str(error), "cause": causes}


def _chain(error: BaseException | None) -> Iterator[str]:
    for _ in range(5):
        if error is None:
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" in {trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace else ""
        yield f"{type(error).__module__}.{type(error).__qualname__}{where}"
        error = error.__cause__ or error.__context__


if __name__ == "__main__":
    main()
