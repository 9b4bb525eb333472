"""Runs a program and says how much other work disturbed it."""

import json
import os
import resource
import subprocess
import time

ATTEMPTS = 3


class Failure(Exception):
    """What went wrong and what to do about it."""


def settings():
    """What the environment sets of the contestants' threads and kernels: OMP_WAIT_POLICY=passive makes llama.cpp three times slower."""
    return {k: v for k, v in sorted(os.environ.items()) if k.startswith(("OMP_", "GOMP_", "KMP_", "GGML_", "MKL_"))}


def said_settings():
    """A line that names them; empty if there are none."""
    found = settings()
    return "set in the environment: " + " ".join(f"{k}={v}" for k, v in found.items()) if found else ""


def busy_seconds():
    """CPU seconds that anything on this machine has used, those its host took away included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command):
    """Standard output of a command, and the share of all CPUs that other work took meanwhile."""
    start, busy, own = time.monotonic(), busy_seconds(), children_seconds()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    others = busy_seconds() - busy - (children_seconds() - own)
    share = max(0.0, others / (time.monotonic() - start) / os.cpu_count())
    if done.returncode in (-2, 130):
        raise KeyboardInterrupt
    if done.returncode:
        what = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        tail = "\n".join("    " + line for line in done.stderr.splitlines()[-12:])
        raise Failure(f"{' '.join(map(str, command))}\nfailed with {what}; the end of what it said:\n{tail}")
    return done.stdout, share


def wait_for_quiet(limit, seconds):
    """Returns once other work takes no more than `limit` of the CPUs for a while, or after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start, busy = time.monotonic(), busy_seconds()
        time.sleep(0.5)
        if (busy_seconds() - busy) / (time.monotonic() - start) / os.cpu_count() <= limit:
            return


def run_quietly(command, limit, wait):
    """Of up to ATTEMPTS runs the one that other work disturbed least; the first below the limit is good enough."""
    best = None
    for _ in range(ATTEMPTS):
        wait_for_quiet(limit, wait)
        out, share = run(command)
        if best is None or share < best["others"]:
            best = {**json.loads(out), "others": share}
        if share <= limit:
            break
    return best
