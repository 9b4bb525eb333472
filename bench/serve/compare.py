#!/usr/bin/env python3
"""forerun's server beside llama.cpp's on one GGUF file, under the same load in turns: tokens a second, times to the first token.

usage: bench/serve/compare.py MODEL.gguf --prompts FILE.jsonl [--forerun PROGRAM] [--peer python|PATH/llama-server] [--threads 0]
                              [--streams 1,4,8,16] [--requests 16] [--tokens 64] [--repeats 5] [serve's flags after --]

  bench/peers/setup.sh                                            # once: llama.cpp's Python package and its server
  bench/serve/compare.py "$(tools/get_model.sh --path)" --prompts prompts.jsonl                # that server
  bench/serve/compare.py model.gguf --prompts prompts.jsonl --peer llama.cpp/build/bin/llama-server

The server of the Python package makes one text at a time; llama.cpp's own takes as many as there are streams (--parallel). Both
servers stay up and take turns, in an order that changes; a turn waits until the machine is quiet, and a ratio is of two turns
next to each other. Prompts are sent greedily with the end of text ignored, so that both make the same number of tokens (the
Python server cannot ignore it: there answers end), and never twice in one run of a server but for the digest: prefixes that are kept
would be compared in place of engines. Exit status
1 if a bar of --bars is missed: forerun makes at least so many times the tokens a second, and its p95 to the first token is no
later.
"""

import argparse
import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from load import bodies_of, parse_with_serve_flags, read_prompts, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
from process import said_settings, wait_for_quiet  # noqa: E402


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def peer_command(args, port, streams):
    context = args.context
    if args.peer == "python":
        threads = args.threads or os.cpu_count()
        return [ROOT / "bench/peers/.venv/bin/python", "-m", "llama_cpp.server", "--model", args.model, "--host", "127.0.0.1",
                "--port", port, "--n_ctx", context, "--n_threads", threads, "--n_threads_batch", threads,
                "--interrupt_requests", "false"]
    return [args.peer, "-m", args.model, "--host", "127.0.0.1", "--port", port, "-c", context * streams, "--parallel", streams,
            *(["-t", args.threads] if args.threads else [])]


@contextlib.contextmanager
def served(command, port, seconds=180):
    """The URL of a server, until the end of the block."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log)
        try:
            url, ends = f"http://127.0.0.1:{port}", time.monotonic() + seconds
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(url + "/v1/models", timeout=5).close()
                    break
                if process.poll() is not None or time.monotonic() > ends:
                    log.seek(0)
                    tail = log.read()[-1500:].decode(errors="replace")
                    sys.exit(f"{command[0]} does not answer; the end of what it said:\n{tail}")
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def turns(args, servers, streams, prompts):
    """{name: results of its turns}"""
    out = {name: [] for name in servers}
    for turn in range(args.repeats):
        # Each turn has prompts of its own, the same for both.
        bodies = bodies_of(prompts, args.requests, args.tokens, first=turn * args.requests, ends=args.peer == "python")
        for name in sorted(servers, reverse=turn % 2 == 1):
            wait_for_quiet(args.quiet, 60)
            out[name].append(run(servers[name], bodies, streams))
    return out


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("--prompts", required=True)
    p.add_argument("--forerun", default=ROOT / "build/release/bin/forerun")
    p.add_argument("--peer", default="python")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--context", type=int, default=2048)
    p.add_argument("--streams", default="1,4,8,16")
    p.add_argument("--requests", type=int, default=16)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--quiet", type=float, default=0.1, help="share of the processors that other work may take")
    p.add_argument("--bars", type=float, help="such as 3: tokens a second, in multiples of the peer's")
    args, serve_flags = parse_with_serve_flags(p)
    prompts, missed = read_prompts(args.prompts), 0
    if said_settings():
        print(said_settings())
    print(f"{'streams':>7}  {'server':9}  {'tokens/s':>24}  {'first token, s: p50':>19}  {'p95':>7}")
    for streams in map(int, args.streams.split(",")):
        ports = free_port(), free_port()
        ours = [args.forerun, "serve", "-m", args.model, "--threads", args.threads, "--port", ports[0], *serve_flags]
        with served(ours, ports[0]) as a, served(peer_command(args, ports[1], streams), ports[1]) as b:
            servers = {"forerun": a, "llama.cpp": b}
            for url in servers.values():
                run(url, bodies_of(["Hello."], 1, 8), 1)
            seen = turns(args, servers, streams, prompts)
        for name, runs in seen.items():
            print(f"{streams:7}  {name:9}  {spread([r['tok_s'] for r in runs], 1):>24}  "
                  f"{statistics.median(r['ttft_p50'] for r in runs):19.3f}  {statistics.median(r['ttft_p95'] for r in runs):7.3f}")
        pairs = list(zip(seen["forerun"], seen["llama.cpp"]))
        ratio = [x["tok_s"] / y["tok_s"] for x, y in pairs]
        wait = [x["ttft_p95"] / y["ttft_p95"] for x, y in pairs]
        print(f"{streams:7}  {'ratio':9}  {spread(ratio, 2):>24}  {'p95':>19}  {spread(wait, 2)}", flush=True)
        if args.bars and (statistics.median(ratio) < args.bars or statistics.median(wait) > 1):
            missed += 1
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
