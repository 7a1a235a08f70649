"""Huey on SQLite, without fsync and without results, as is fastest for it. `huey_peer VERB URL [N]`, a sqlite:/// URL.

Its worker threads import this module by its name; the consumer runs in this process.
"""

import os
import sys

from huey import SqliteHuey

from bench.peers.kit import Ticks, answer

queue = SqliteHuey("bench", filename=os.environ.get("BENCH_FILE", "unused.db"), results=False, fsync=False)
ticks: list[Ticks] = []


@queue.task(name="noop")
def noop() -> None:
    ticks[0].tick()


def main() -> None:
    verb, url, *numbers = sys.argv[1:]
    os.environ["BENCH_FILE"] = url.removeprefix("sqlite:///")
    from bench.peers import huey_peer  # by its name, with the file in place, as the consumer would

    match verb:
        case "setup":
            huey_peer.queue.storage.initialize_schema()
        case "load":
            for _ in range(int(numbers[0])):
                huey_peer.noop()
        case "work":
            huey_peer.ticks.append(Ticks())
            consumer = huey_peer.queue.create_consumer(
                workers=1, worker_type="thread", initial_delay=0.01, max_delay=0.05
            )
            consumer.run()
    answer(done=verb)


if __name__ == "__main__":
    main()
