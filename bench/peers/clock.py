"""The clock of a run: from the first job to the moment when nothing is unfinished."""

import json
import time


class Clock:
    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.count = 0
        self.began = 0.0

    def tick(self) -> None:
        if not self.count:
            self.began = time.perf_counter()
        self.count += 1

    @property
    def all_run(self) -> bool:
        return self.count >= self.rows

    def stop(self) -> None:
        print(json.dumps({"rows": self.rows, "seconds": time.perf_counter() - self.began}), flush=True)
