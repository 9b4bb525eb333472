#!/usr/bin/env python3
"""What HTTP costs beside the engine: processor time of the server's threads while streams run.

usage: bench/serve/http_cost.py FORERUN MODEL [--streams 8] [--tokens 200] [--repeats 5] [--bar 0.03] [serve's flags after --]

The thread that answers /health is that of input and output, those that answer /tokenize parse. Their processor time while
`streams` texts are made is what HTTP costs: a token, and as a share of the time that the texts took, which is that of their
rounds. Exit status 1 if the median share is above the bar.
"""

import argparse
import http.client
import json
import os
import statistics
import sys
import threading
import time

from load import parse_with_serve_flags
from soak import PROMPTS, Server, ask


def seconds_of_threads(pid):
    """{thread: processor seconds}, by the scheduler's nanoseconds."""
    out = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            out[int(tid)] = int(f.read().split()[0]) / 1e9
    return out


def busy(server, work):
    """{thread: processor seconds} that `work` took."""
    before = seconds_of_threads(server.process.pid)
    work()
    after = seconds_of_threads(server.process.pid)
    return {tid: s - before.get(tid, 0.0) for tid, s in after.items()}


def many(server, method, path, body=None, count=300):
    c = http.client.HTTPConnection(server.host, server.port, timeout=60)
    for _ in range(count):
        c.request(method, path, body)
        c.getresponse().read()
    c.close()


def http_threads(server):
    many(server, "GET", "/health", count=1)
    health = busy(server, lambda: many(server, "GET", "/health"))
    health.pop(server.process.pid)  # the engine's, which measures a plain pass at the start
    io = max(health, key=health.get)
    parsing = busy(server, lambda: many(server, "POST", "/tokenize", json.dumps({"content": "The sky is blue. " * 200})))
    parsing.pop(io)
    parsing.pop(server.process.pid)
    most = max(parsing.values())
    return io, [tid for tid, s in parsing.items() if s > 0.05 * most]


def turn(server, args, io, parsers):
    def make(i):
        ask(server, {"messages": [{"role": "user", "content": PROMPTS[i % len(PROMPTS)]}], "seed": i, "max_tokens": args.tokens,
                     "ignore_eos": True, "stream": True})

    threads = [threading.Thread(target=make, args=(i,)) for i in range(args.streams)]
    began = time.monotonic()

    def work():
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    used = busy(server, work)
    wall, tokens = time.monotonic() - began, args.streams * args.tokens
    cost = used[io] + sum(used.get(tid, 0.0) for tid in parsers)
    return {"us": 1e6 * cost / tokens, "of_wall": cost / wall, "of_all": cost / sum(used.values()), "tok_s": tokens / wall}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("forerun")
    p.add_argument("model")
    p.add_argument("--streams", type=int, default=8)
    p.add_argument("--tokens", type=int, default=200)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--bar", type=float, default=0.03)
    args, serve_flags = parse_with_serve_flags(p)
    server = Server(args.forerun, args.model, serve_flags)
    try:
        io, parsers = http_threads(server)
        turn(server, args, io, parsers)
        turns = [turn(server, args, io, parsers) for _ in range(args.repeats)]
    finally:
        server.process.terminate()
        server.process.wait()
    median = {key: statistics.median(t[key] for t in turns) for key in turns[0]}
    shares = [t["of_wall"] for t in turns]
    print(f"{args.streams} streams, {args.repeats} times {args.tokens} tokens each: {median['tok_s']:.1f} tokens/s; threads of HTTP: "
          f"{median['us']:.0f} us a token, {100 * median['of_wall']:.2f}% [{100 * min(shares):.2f}, {100 * max(shares):.2f}] of the "
          f"rounds' time, {100 * median['of_all']:.2f}% of the server's processor time")
    return 1 if median["of_wall"] > args.bar else 0


if __name__ == "__main__":
    sys.exit(main())
