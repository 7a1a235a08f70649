"""Put three stores of knowledge bases through faults, and read in the end whether they agree.

    python -m faults.knowledge [--seconds 60] [--operations 2000] [--seed 1] [--store sqlite] [--objects s3] [--json]
    python -m faults.knowledge --broken all    # with guards taken out by turns: the lab must notice

Exit code 1 when a rule was broken; with --broken, when none was.
"""

import argparse
import json
import signal
import sys
from dataclasses import asdict

from faults.knowledge.broken import GUARDS
from faults.knowledge.run import KnowledgeFinding, StoreName, run

SHOWN = 12
"""Violations that are printed per run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults, at least")
    parser.add_argument("--operations", type=int, default=0, help="requests of clients, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), help="of rows and vectors; default: both by turns")
    parser.add_argument("--objects", choices=("folder", "s3"), default="folder")
    parser.add_argument("--broken", choices=("all", *GUARDS), help="take this guard out first")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each run")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that processes and folders go with us
    stores: tuple[StoreName, ...] = (given.store,) if given.store else ("sqlite", "postgresql")
    guards = ("",) if not given.broken else tuple(GUARDS) if given.broken == "all" else (given.broken,)
    as_wished = True
    for guard in guards:
        for store in stores:
            finding = run(
                store, given.objects, seed=given.seed, seconds=given.seconds, operations=given.operations, broken=guard
            )
            tell(finding, as_json=given.json)
            as_wished &= finding.noticed if guard else finding.passed
            if guard:
                noticed = "noticed" if finding.noticed else "NOT NOTICED"
                print(f"without the guard {guard}, {store}: {noticed}", flush=True)
    sys.exit(0 if as_wished else 1)


def tell(finding: KnowledgeFinding, *, as_json: bool) -> None:
    if as_json:
        facts = asdict(finding) | {"violations": list(map(str, finding.violations)), "passed": finding.passed}
        print(json.dumps(facts), flush=True)
        return
    print(f"{'passed' if finding.passed else 'FAILED'}  {finding.store}, seed {finding.seed}, {finding.seconds:.0f} s")
    for name, about in (("faults", finding.dose), ("acknowledged", finding.acknowledged), ("mended", finding.left)):
        print(f"    {name}: {', '.join(f'{number:,} {what}' for what, number in about.items()) or 'nothing'}")
    print(
        f"    {finding.asked:,} requests, {finding.events:,} events, {finding.retried:,} of them more than once; "
        f"{finding.ready:,} documents in the end; {finding.looks:,} marks looked at; {finding.comparisons} comparisons "
        f"meanwhile, with {finding.corrected:,} findings",
        flush=True,
    )
    unharmed = [f"did no harm: {name} is zero" for name in finding.without_dose]
    for problem in [*unharmed, *([finding.broke] if finding.broke else []), *map(str, finding.violations[:SHOWN])]:
        print(f"    {problem}", flush=True)
    if len(finding.violations) > SHOWN:
        print(f"    and {len(finding.violations) - SHOWN:,} more", flush=True)


if __name__ == "__main__":
    main()
