"""Put a fleet through faults, and judge what it did.

    python -m faults [--seconds 7] [--seed 1] [--only NAME,NAME] [--store sqlite] [--json]
    python -m faults --broken all --only frozen,operators   # with guards of the engine taken out: the lab must notice

Every scenario runs on a database of its own. The table is written to docs/reliability.md and
faults/results/latest.json, unless only some were asked for. Exit code 1 when a rule was broken, or when a scenario did
no harm; with --broken, when none was.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator

from faults import report
from faults.broken import GUARDS
from faults.scenario import Finding, Scenario
from faults.scenarios import SCENARIOS

SHOWN = 10
"""Violations that are printed per run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=7.0, help="of faults, in each scenario")
    parser.add_argument("--minutes", type=float, help="go through all scenarios again and again, with other seeds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="parts of scenarios' names, separated by commas")
    parser.add_argument("--store", choices=("postgresql", "sqlite"))
    parser.add_argument("--broken", choices=("all", *GUARDS), help="take this guard out of the engine first")
    parser.add_argument("--update", action="store_true", help="with --only: put these findings into the last table")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each scenario")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that processes and folders go with us
    parts = given.only.split(",") if given.only else [""]
    chosen = [kind for kind in SCENARIOS if any(part in kind.name for part in parts)]
    if not chosen:
        parser.error(f"no such scenario. There are: {', '.join(kind.name for kind in SCENARIOS)}")
    if given.broken:
        tried = [noticed(kinds, given, guard) for guard, kinds in broken(chosen, given.broken).items()]
        if not tried:
            parser.error(f"these scenarios do not need the guard in {given.broken}")
        sys.exit(0 if all(tried) else 1)
    findings: list[Finding] = []
    began, seed = time.monotonic(), given.seed
    while True:
        findings += runs(chosen, given, seed)
        if given.minutes is None or time.monotonic() - began > given.minutes * 60:
            break
        seed += 1
    if given.update or not (given.only or given.store):
        report.write(findings, given.seed, update=given.update)
    sys.exit(0 if all(finding.passed or finding.not_run for finding in findings) else 1)


def runs(chosen: list[type[Scenario]], given: argparse.Namespace, seed: int) -> Iterator[Finding]:
    for kind in chosen:
        for store in kind.stores:
            if given.store in (None, store):
                finding = kind(seed, given.seconds).run(store)
                tell(finding, as_json=given.json)
                yield finding


def broken(chosen: list[type[Scenario]], name: str) -> dict[str, list[type[Scenario]]]:
    """Return the guards to remove, one at a time, each with the scenarios that need it."""
    wanted = list(GUARDS) if name == "all" else [name]
    needed = {guard: [kind for kind in chosen if guard in kind.guards] for guard in wanted}
    return {guard: kinds for guard, kinds in needed.items() if kinds}


def noticed(chosen: list[type[Scenario]], given: argparse.Namespace, guard: str) -> bool:
    """Return whether every run breaks a rule with this guard removed."""
    os.environ["FAULTS_BROKEN"] = guard
    unseen = [finding.store for finding in runs(chosen, given, given.seed) if not (finding.violations or finding.broke)]
    print(f"without the guard in {guard}: {'NOT NOTICED on ' + ', '.join(unseen) if unseen else 'noticed'}", flush=True)
    return not unseen


def tell(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict(finding)), flush=True)
        return
    if finding.not_run:
        print(f"not run {finding.scenario}, {report.STORES[finding.store]}: {finding.not_run}", flush=True)
        return
    verdict = "passed" if finding.passed else "FAILED"
    seen = report.dose_text(finding.dose | finding.measured)
    print(
        f"{verdict}  {finding.scenario}, {report.STORES[finding.store]}: {seen}; "
        f"{finding.rows:,} rows, {finding.stale_refused:,} stale refused, {finding.seconds:.0f} s, seed {finding.seed}",
        flush=True,
    )
    for wrong in finding.wrong:
        print(f"    {wrong}")
    for violation in finding.violations[:SHOWN]:
        print(f"    {violation}")
    if len(finding.violations) > SHOWN:
        print(f"    and {len(finding.violations) - SHOWN:,} more")


if __name__ == "__main__":
    main()
