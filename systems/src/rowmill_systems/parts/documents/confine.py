"""What a process gives up before it reads files of strangers. What a system does not have is left out."""

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
"""Seconds of CPU on top of what the clock on the wall allows."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """For the process: no addresses of databases, no keys, and a malloc that gives memory back.

    With glibc's usual settings OCR keeps 420 MB between pages, with these 200.
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
    """However the parent ends. Elsewhere than on Linux, the end of the pipe says so when the document is read."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os._exit(1)


def ignore_signals() -> None:
    """A terminal or a supervisor signals the whole group; when the work ends is for the parent to decide."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def drop_rights(memory: int) -> None:
    """No files, no cores, no more than so much data; no network where the kernel lets everybody give it up."""
    for limit, value in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)):
        resource.setrlimit(limit, (value, value))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.unshare(CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWUSER | CLONE_NEWNET)


def allow_cpu(seconds: float, threads: int) -> None:
    """For the next document. Whoever waits has a clock; this is for when nobody waits any more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds * threads) + SLACK, hard))
