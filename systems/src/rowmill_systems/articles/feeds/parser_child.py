"""The process in which feeds are parsed: one after another, until its pipe ends.

python -m rowmill_systems.articles.feeds.parser_child <pid of the parent> <bytes of memory>
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rowmill_systems.articles.feeds.parser_frames import LENGTHS, entry_to_json, feed_to_json
from rowmill_systems.articles.feeds.parsing import NotAFeed, parse_feed

PR_SET_PDEATHSIG = 1


def confine(parent: int, memory: int) -> None:
    """Die with the parent, however it ends; write no files, dump no core, and take so much memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os._exit(1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to the group is the parent's to handle
    for limit, value in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)):
        resource.setrlimit(limit, (value, value))


def answer(asked: dict[str, Any], body: bytes) -> Iterator[dict[str, Any]]:
    """Parse a feed, and yield the frames of the answer. Errors are told by their class: a text may quote the feed."""
    try:
        feed = parse_feed(
            body,
            url=asked["url"],
            content_type=asked["content_type"],
            max_entries=asked["max_entries"],
            now=datetime.fromisoformat(asked["now"]),
        )
    except NotAFeed as error:
        yield {"not_a_feed": str(error), "is_page": error.is_page}
    except Exception as error:
        yield {"crashed": type(error).__name__}
    else:
        yield {"feed": feed_to_json(feed), "entries": len(feed.entries)}
        yield from map(entry_to_json, feed.entries)


def main() -> None:
    confine(int(sys.argv[1]), int(sys.argv[2]))
    asked_for, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # what libraries print must not get between the frames
        os.dup2(nowhere, number)
    while len(head := asked_for.read(LENGTHS.size)) == LENGTHS.size:
        said, blob = LENGTHS.unpack(head)
        asked = json.loads(asked_for.read(said))
        for frame in answer(asked, asked_for.read(blob)):
            found = json.dumps(frame, separators=(",", ":")).encode()
            answers.write(LENGTHS.pack(len(found), 0) + found)
        answers.flush()


if __name__ == "__main__":
    main()
