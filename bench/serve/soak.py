#!/usr/bin/env python3
"""Many streams for minutes, each checked against the text that a lone request gets: mixed prompts, samplings and clients.

usage: bench/serve/soak.py FORERUN MODEL [--streams 64] [--minutes 3] [--tokens 48] [--cases 24] [serve's flags after --]

Every case is a prompt with a sampling of its own (greedy, temperatures and limits with a seed, penalties, bias, stop strings, a
schema). Its text comes first from the server while nothing else runs, and for cases that `forerun generate` has flags for, from
the command too. Then the streams ask for cases at random; a tenth leaves in the middle, others read whole answers. At the end of
the table stand resident memory over time and what differed, was lost or failed. Exit status 1 if anything did.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from load import parse_with_serve_flags

PROMPTS = ("Write a short story about a lighthouse.", "Explain how bread is made.", "List the planets.", "What is a prime number?",
           "Translate 'good morning' into French, German and Spanish.", "Write a Python function that reverses a string.",
           "Why is the sky blue?", "Tom is a 3 year old cat. Describe him as JSON.")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "kind": {"enum": ["cat", "dog"]},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 30}},
          "required": ["name", "kind", "age"]}
# Fields of a request, and the flags of `forerun generate` that mean the same (None: it has none).
SAMPLINGS = (
    ({"temperature": 0}, ("--temp", "0")),
    ({"temperature": 0.7}, ("--temp", "0.7")),
    ({"temperature": 1.0, "top_p": 0.9, "top_k": 40}, ("--temp", "1", "--top-p", "0.9", "--top-k", "40")),
    ({"temperature": 0.9, "presence_penalty": 0.6, "frequency_penalty": 0.4, "repeat_penalty": 1.1}, None),
    ({"temperature": 0.8, "min_p": 0.05, "logit_bias": {"28": -5, "30": 2}}, None),
    ({"temperature": 1.0, "stop": [".", "\n\n"]}, None),
    ({"temperature": 0.6, "response_format": {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA}}}, None),
    ({"temperature": 0.7, "speculative": {"off": True}}, ("--temp", "0.7")),
)


def cases(count, tokens):
    for i in range(count):
        fields, flags = SAMPLINGS[i % len(SAMPLINGS)]
        prompt = PROMPTS[-1] if "response_format" in fields else PROMPTS[(i + i // len(SAMPLINGS)) % len(PROMPTS)]
        yield {"body": {"messages": [{"role": "user", "content": prompt}], "seed": 100 + i, "max_tokens": tokens + 5 * (i % 4),
                        **fields}, "flags": flags}


class Server:
    def __init__(self, program, model, flags):
        self.process = subprocess.Popen([program, "serve", "-m", model, *(() if "--port" in flags else ("--port", "0")), *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.host, port = re.match(r"http://([\d.]+):(\d+)", self.process.stdout.readline()).groups()
        self.port = int(port)

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def metric(self, name):
        c = http.client.HTTPConnection(self.host, self.port, timeout=60)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def ask(server, body, leave_after=None):
    """(text, finish reason), or None where the client left after so many events."""
    c = http.client.HTTPConnection(server.host, server.port, timeout=600)
    try:
        c.request("POST", "/v1/chat/completions", json.dumps(body))
        r = c.getresponse()
        if r.status != 200:
            raise RuntimeError(f"status {r.status}: {r.read()[:200]!r}")
        if not body.get("stream"):
            choice = json.load(r)["choices"][0]
            return choice["message"]["content"], choice["finish_reason"]
        text, reason, events, done = "", None, 0, False
        for line in r:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
                reason = choice["finish_reason"] or reason
            events += 1
            if leave_after is not None and events >= leave_after:
                return None
        if not done:
            raise RuntimeError("a stream ended without [DONE]")
        return text, reason
    finally:
        c.close()


def of_command(args, case):
    r = subprocess.run([args.forerun, "generate", "-m", args.model, "--rule", "shared-noise", "-p",
                        case["body"]["messages"][0]["content"], "--seed", str(case["body"]["seed"]), "-n",
                        str(case["body"]["max_tokens"]), *case["flags"], "--json"], capture_output=True, text=True, check=True)
    return json.loads(r.stdout)["text"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("forerun")
    p.add_argument("model")
    p.add_argument("--streams", type=int, default=64)
    p.add_argument("--minutes", type=float, default=3.0)
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--cases", type=int, default=24)
    p.add_argument("--commands", type=int, default=6, help="cases that the command makes too")
    args, serve_flags = parse_with_serve_flags(p)
    server = Server(args.forerun, args.model, serve_flags)
    all_cases = list(cases(args.cases, args.tokens))
    wrong = []
    for case in all_cases:
        case["alone"] = ask(server, case["body"])
    checked = [c for c in all_cases if c["flags"]][:args.commands]
    for case in checked:
        if (text := of_command(args, case)) != case["alone"][0]:
            wrong.append(f"the command gives {text[:60]!r}, a lone request {case['alone'][0][:60]!r}: {case['body']}")
    print(f"{len(all_cases)} cases alone, {len(checked)} of them by the command too", flush=True)

    counts, memory, lock = Counter(), [], threading.Lock()
    began = time.monotonic()
    ends = began + 60 * args.minutes

    def work(i):
        r = random.Random(i)
        while time.monotonic() < ends:
            case = r.choice(all_cases)
            leaves = r.random() < 0.1
            stream = leaves or r.random() < 0.7
            try:
                got = ask(server, {**case["body"], "stream": stream}, r.randrange(1, 8) if leaves else None)
                kind = "left" if got is None else "equal" if got == case["alone"] else "different"
                if kind == "different":
                    raise RuntimeError(f"{got!r} in place of {case['alone']!r}: {case['body']}")
            except Exception as e:  # noqa: BLE001
                kind = "failed"
                with lock:
                    wrong.append(str(e))
            with lock:
                counts[kind] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(args.streams)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        memory.append((time.monotonic() - began, server.resident()))
        time.sleep(min(5.0, 60 * args.minutes / 30))
    for t in threads:
        t.join()
    seconds = time.monotonic() - began
    deadline = time.monotonic() + 60
    while (left := server.metric("forerun_texts_running") + server.metric("forerun_texts_waiting")) and time.monotonic() < deadline:
        time.sleep(0.2)
    if left:
        wrong.append(f"{left:.0f} texts are left in the server")
    # The caches fill in the first half; what leaks grows on in the second.
    half = [m for at, m in memory if at >= seconds / 2] or [memory[-1][1]]
    growth = half[-1] - half[0]
    if growth > 64 << 20:
        wrong.append(f"memory grew by {growth >> 20} MiB in the second half")
    server.process.send_signal(signal.SIGTERM)
    if (code := server.process.wait(60)) != 0:
        wrong.append(f"the server ended with {code}")

    print(f"{args.streams} streams, {seconds:.0f} s: {sum(counts.values())} requests")
    for name in ("equal", "left", "failed"):
        print(f"  {name:22} {counts[name]:7}")
    for share in (0, 0.25, 0.5, 0.75, 1):
        at, resident = memory[min(len(memory) - 1, int(share * len(memory)))]
        print(f"  memory at {at:5.0f} s       {resident >> 20:7} MiB")
    for line in wrong[:10]:
        print("WRONG:", line)
    print("all as alone, none lost, memory flat" if not wrong else f"{len(wrong)} things wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
