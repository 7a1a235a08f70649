"""How fast does one process drain a queue of no-op jobs, beside a peer and beside the limit?

    python -m bench.drain [--rows 100000] [--rounds 3] [--peers rowmill,pgqueuer,raw]

Every run starts on a fresh database and in a fresh process, in rounds that alternate between the peers.
The clock starts at the first job and stops when the peer's own table says that nothing is unfinished.
A peer that is not ours runs in an environment of its own, made from bench/requirements.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

import psycopg

from bench.server import bench_server

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".bench"
PEERS = {"rowmill": None, "raw": None, "pgqueuer": "pgqueuer"}
"""Each peer's own environment, where it needs one."""


def python_of(peer: str) -> str:
    """The interpreter for a peer; makes its environment when it is not there."""
    environment = PEERS[peer]
    if environment is None:
        return sys.executable
    folder = ENVIRONMENTS / environment
    program = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        requirements = HERE / "requirements" / f"{environment}.txt"
        subprocess.run([program, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", requirements], check=True)
        done.touch()
    return str(program)


def fresh_database(server_url: str, name: str) -> str:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute("CHECKPOINT")
    return server_url.rsplit("/", 1)[0] + f"/{name}"


def run_peer(peer: str, url: str, rows: int) -> float:
    """Jobs per second of one run."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    program = [python_of(peer), "-m", f"bench.peers.{peer}_peer", url, str(rows)]
    answer = subprocess.run(program, capture_output=True, text=True, timeout=600, env=environment, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{peer} failed:\n{answer.stderr}")
    result = json.loads(answer.stdout.strip().splitlines()[-1])
    return float(result["rows"] / result["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="rowmill,pgqueuer,raw")
    given = parser.parse_args()
    peers = given.peers.split(",")
    rates: dict[str, list[float]] = {peer: [] for peer in peers}
    with bench_server() as server:
        for round_number in range(given.rounds):
            for peer in peers:
                rate = run_peer(peer, fresh_database(server.url, f"bench_{peer}"), given.rows)
                rates[peer].append(rate)
                print(json.dumps({"round": round_number, "peer": peer, "rate": round(rate)}), flush=True)
    medians = {peer: statistics.median(found) for peer, found in rates.items()}
    for peer, median in medians.items():
        spread = [round(min(rates[peer])), round(max(rates[peer]))]
        print(json.dumps({"peer": peer, "median": round(median), "spread": spread}))
    for peer, goal in (("pgqueuer", 2.0), ("raw", 0.7)):
        if peer in medians and "rowmill" in medians:
            reached = medians["rowmill"] / medians[peer]
            measure = f"drain of {given.rows}, one process, rowmill / {peer}"
            print(json.dumps({"measure": measure, "goal": goal, "reached": round(reached, 2), "met": reached >= goal}))


if __name__ == "__main__":
    main()
