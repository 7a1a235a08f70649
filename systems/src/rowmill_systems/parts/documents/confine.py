"""Give up rights before reading files of strangers, as far as the system lets a process do that."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TESSDATA_PREFIX", "SYSTEMROOT", "TMPDIR")
SLACK = 5
"""Seconds of CPU beyond the time limit of the clock."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process: no addresses of databases, no keys, and a malloc that returns memory.

    With glibc's defaults OCR keeps 420 MB between pages; with these settings, 200.
    """
    return {name: given[name] for name in KEPT if name in given} | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "131072",
        "MALLOC_TRIM_THRESHOLD_": "131072",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def die_with(parent: int) -> None:
    """Die when the parent ends, however it ends. Only on Linux; elsewhere the process notices at its next read."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def ignore_signals() -> None:
    """Ignore signals to the whole process group. The parent decides when the work ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def drop_rights(memory: int) -> None:
    """Allow no files, no core dumps, so much memory, and no network where the kernel lets us give it up."""
    for limit, value in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)):
        resource.setrlimit(limit, (value, value))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.unshare(CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWNET)


def allow_cpu(seconds: float, threads: int) -> None:
    """Limit the CPU time of the next document, for when the parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds * threads) + SLACK, hard))
