#!/usr/bin/env python3
"""Several OpenAI-compatible servers under the same load, in turns: tokens a second, times to the first token.

usage: load.py --prompts FILE.jsonl [--streams 1,4,8,16] [--requests 16] [--tokens 64] [--repeats 3] NAME=URL ...

Every prompt is sent greedily to every server, `streams` at a time, with the end of text ignored. The servers take turns, `repeats`
times; the median counts, with the range beside it. The digest tells whether two servers gave the same texts. Python's standard
library suffices.
"""

import argparse
import hashlib
import http.client
import json
import statistics
import sys
import threading
import time
import urllib.parse


def parse_with_serve_flags(parser):
    """(arguments, flags of `forerun serve`): those before and after `--` of the command line."""
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    return parser.parse_args(own), sys.argv[len(own) + 2:]


def stream(url, body):
    """(text, tokens, seconds to the first text) of one request."""
    parts = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
    began = time.perf_counter()
    c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = c.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{url}: status {response.status}: {response.read()[:300]!r}")
    text, tokens, pieces, first = "", None, 0, None
    for line in response:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        if chunk.get("usage"):
            tokens = chunk["usage"]["completion_tokens"]
        for choice in chunk["choices"]:
            piece = choice["delta"].get("content") or ""
            if piece and first is None:
                first = time.perf_counter() - began
            text += piece
            pieces += bool(piece)
    c.close()
    # llama.cpp's Python server tells no usage in streams; its pieces are tokens, but where several make one character.
    return text, pieces if tokens is None else tokens, first


def run(url, bodies, streams):
    """All requests, so many at a time."""
    results, errors, lock = [None] * len(bodies), [], threading.Lock()
    waiting = iter(range(len(bodies)))

    def work():
        while True:
            with lock:
                i = next(waiting, None)
            if i is None or errors:
                return
            try:
                results[i] = stream(url, bodies[i])
            except Exception as e:  # noqa: BLE001
                errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(streams)]
    began = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    seconds = time.perf_counter() - began
    firsts = sorted(f for _, _, f in results if f is not None)
    return {"tok_s": sum(n for _, n, _ in results) / seconds,
            "ttft_p50": firsts[len(firsts) // 2],
            "ttft_p95": firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))],
            "digest": hashlib.sha256("\0".join(t for t, _, _ in results).encode()).hexdigest()[:8]}


def read_prompts(path):
    with open(path) as f:
        return [json.loads(line)["prompt"] for line in f if line.strip()]


def bodies_of(prompts, count, tokens, first=0, ends=False):
    """Requests for so many tokens each (if it `ends`, at most), of the prompts from `first` on, over and over."""
    return [{"messages": [{"role": "user", "content": prompts[(first + i) % len(prompts)]}], "temperature": 0, "max_tokens": tokens,
             "ignore_eos": not ends, "stream": True, "stream_options": {"include_usage": True}} for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--streams", default="1,4,8,16")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("servers", nargs="+", metavar="NAME=URL")
    args = parser.parse_args()
    servers = dict(s.split("=", 1) for s in args.servers)
    bodies = bodies_of(read_prompts(args.prompts), args.requests, args.tokens)
    for url in servers.values():
        run(url, bodies[:1], 1)
    print(f"{'streams':>7}  {'server':16}  {'tok/s':>20}  {'first token, s: p50':>19}  {'p95':>6}  digest")
    for streams in map(int, args.streams.split(",")):
        seen = {name: [] for name in servers}
        for _ in range(args.repeats):
            for name, url in servers.items():
                seen[name].append(run(url, bodies, streams))
        for name, runs in seen.items():
            rates = sorted(r["tok_s"] for r in runs)
            digests = "/".join(sorted({r["digest"] for r in runs}))
            print(f"{streams:7}  {name:16}  {statistics.median(rates):6.1f} [{rates[0]:.1f}, {rates[-1]:.1f}]"
                  f"  {statistics.median(r['ttft_p50'] for r in runs):19.3f}  {statistics.median(r['ttft_p95'] for r in runs):6.3f}  {digests}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
