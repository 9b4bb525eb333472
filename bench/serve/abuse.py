#!/usr/bin/env python3
"""A server under attack, and who else is served meanwhile: usage bench/serve/abuse.py FORERUN MODEL [--idle 10000] [serve's flags after --]

One attack after the other, and beside each a client that goes on asking for a short text: the table shows how often it was
answered, its longest wait, and the server's memory. Then the server is killed and started again, and ended by SIGTERM while it
answers. Exit status 1 if the server crashed, a good client was refused, an attack got another status than it should, or memory
grew by more than 300 MiB. Needs about as many file descriptors as idle connections (ulimit -n).
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time

from load import parse_with_serve_flags
from soak import Server

CHAT = "/v1/chat/completions"
KEY = "the-key"
GOOD = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 3, "temperature": 0}


def head(path=CHAT, method="POST", key=KEY, **fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"] + ([f"Authorization: Bearer {key}"] if key else [])
    return ("\r\n".join(lines + [f"{k.replace('_', '-')}: {v}" for k, v in fields.items()]) + "\r\n\r\n").encode()


def connect(server, timeout=30):
    return socket.create_connection((server.host, server.port), timeout=timeout)


def status(server, data, timeout=60):
    """Of the answer to these bytes; None if the server closes without one."""
    out = b""
    with connect(server, timeout) as s:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            s.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                out += piece
    return int(out.split(b" ", 2)[1]) if out.startswith(b"HTTP/1.1 ") else None


def post(body, **fields):
    return head(Content_Length=len(body), **fields) + body


class Guest(threading.Thread):
    """A client that behaves, until it is told to stop."""

    def __init__(self, server):
        super().__init__()
        self.server, self.answered, self.worst, self.errors, self.done = server, 0, 0.0, [], threading.Event()

    def run(self):
        body = json.dumps(GOOD).encode()
        while not self.done.is_set():
            began = time.monotonic()
            try:
                got = status(self.server, post(body))
            except OSError as e:
                got = e
            if got == 200:
                self.answered += 1
                self.worst = max(self.worst, time.monotonic() - began)
            else:
                self.errors.append(str(got))


def expect(got, *wanted):
    if got not in wanted:
        raise AssertionError(f"status {got}, expected {' or '.join(map(str, wanted))}")


# --- attacks -----------------------------------------------------------------------------------------------------------
def slow_readers(server, _):
    body = json.dumps({**GOOD, "max_tokens": 300, "ignore_eos": True, "n": 2, "logprobs": True, "top_logprobs": 20,
                       "stream": True}).encode()
    readers = []
    for _ in range(4):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((server.host, server.port))
        s.sendall(post(body))
        readers.append(s)
    time.sleep(15)
    for s in readers:
        s.close()


def slow_senders(server, _):
    slow = [connect(server) for _ in range(200)]
    for s in slow:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nX: ")
    ends = time.monotonic() + 8
    while time.monotonic() < ends:
        for s in slow:
            with contextlib.suppress(OSError):
                s.sendall(b"a")
        time.sleep(0.2)
    for s in slow:  # the time for a head is over
        s.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            expect(int((s.recv(100) or b"HTTP/1.1 408").split()[1]), 408)
        s.close()


def large_bodies(server, _):
    expect(status(server, head(Content_Length=100_000_000)), 413)
    block = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    for _ in range(4):  # 100 MB each, whether the server wants it or not
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), connect(server) as s:
            s.sendall(head(Transfer_Encoding="chunked"))
            for _ in range(100):
                s.sendall(block)
    body = b'{"messages": "' + b"x" * (7 << 20) + b'"}'
    for _ in range(10):
        expect(status(server, post(body)), 400)


def deep_json(server, _):
    for body in (b"[" * 1_000_000, b'{"a":' * 500_000, b'{"messages": ' + b"[" * 100 + b"]" * 100 + b"}",
                 b'{"messages": [], "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": '
                 + b'{"items": ' * 40 + b"{}" + b"}" * 40 + b"}}}"):
        expect(status(server, post(body)), 400)


def bad_text(server, _):
    for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\\ud800", b"\xf4\x90\x80\x80", b"\x00"):
        expect(status(server, post(b'{"messages": [{"role": "user", "content": "' + text + b'"}]}')), 400)
    for body in (b"", b"{", b"null", b"\x1f\x8b\x08", b'{"a": 1, "a": 2}', b"NaN"):
        expect(status(server, post(body)), 400)


def idle_connections(server, args):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, args.idle + 200) if hard > 0 else args.idle + 200, hard))
    idle = []
    try:
        for _ in range(args.idle):
            idle.append(connect(server))
        time.sleep(5)
    finally:
        for s in idle:
            s.close()


def wrong_keys(server, _):
    for key in (None, "", "wrong", KEY + "x", KEY[:-1], "x" * 8000):
        for _ in range(100):
            expect(status(server, post(json.dumps(GOOD).encode(), key=key)), 401)


def header_floods(server, _):
    for _ in range(50):
        expect(status(server, head(**{f"X{i}": "y" * 50 for i in range(3000)})), 431)
        expect(status(server, head(X="y" * 1_000_000)), 431)
        expect(status(server, head("/" + "a" * 100_000)), 431)


def path_tricks(server, _):
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//v1/models", "/v1/models/../../etc", "/v1//chat/completions",
                 "/page.js%00", "/v1/models/%00", "/\\..\\x", "http://x/v1/models", "/v1/models/" + "a" * 5000, "*", "/.env"):
        expect(status(server, head(path, "GET")), 404, 400)


def other_protocols(server, _):
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"EHLO x\r\n\r\n", b"\x00" * 1000 + b"\r\n\r\n"):
        expect(status(server, data), 400, None, 404, 405)


ATTACKS = (slow_readers, slow_senders, large_bodies, deep_json, bad_text, idle_connections, wrong_keys, header_floods, path_tricks,
           other_protocols)


# --- ends --------------------------------------------------------------------------------------------------------------
def end_under_load(server):
    """(answers that were finished, requests that got 503)"""
    body = json.dumps({**GOOD, "max_tokens": 100, "ignore_eos": True, "stream": True}).encode()
    ends, refused, began = [], 0, threading.Barrier(9)

    def run():
        out = b""
        with connect(server, 300) as s:
            s.sendall(post(body))
            out += s.recv(4096)
            began.wait()
            while piece := s.recv(65536):
                out += piece
        ends.append(b"data: [DONE]" in out)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    began.wait()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    with contextlib.suppress(OSError):
        while not all(ends) or len(ends) < 8:
            refused += status(server, post(json.dumps(GOOD).encode())) == 503
            time.sleep(0.1)
    for t in threads:
        t.join()
    return sum(ends), refused


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("forerun")
    p.add_argument("model")
    p.add_argument("--idle", type=int, default=10_000)
    p.add_argument("--attacks", help="some of " + ",".join(a.__name__ for a in ATTACKS))
    args, serve_flags = parse_with_serve_flags(p)
    folder = tempfile.TemporaryDirectory()
    keys = os.path.join(folder.name, "keys")
    with open(keys, "w") as f:
        f.write(KEY + "\n")
    flags = ["--api-key-file", keys, "--timeout", "4", *serve_flags]
    server = Server(args.forerun, args.model, flags)
    expect(status(server, post(json.dumps(GOOD).encode())), 200)
    before, wrong = server.resident(), []
    print(f"{'attack':18} {'s':>5}  {'others answered':>15}  {'longest wait, s':>15}  {'memory, MiB':>11}")
    for attack in ATTACKS:
        if args.attacks and attack.__name__ not in args.attacks.split(","):
            continue
        guest = Guest(server)
        guest.start()
        began = time.monotonic()
        try:
            attack(server, args)
        except (AssertionError, OSError) as e:
            wrong.append(f"{attack.__name__}: {e}")
        while not guest.answered and not guest.errors and time.monotonic() < began + 60:
            time.sleep(0.05)
        guest.done.set()
        guest.join()
        wrong += [f"{attack.__name__}: a good client got {e}" for e in guest.errors[:3]]
        print(f"{attack.__name__:18} {time.monotonic() - began:5.1f}  {guest.answered:15}  {guest.worst:15.2f}  "
              f"{server.resident() >> 20:11}", flush=True)
        if server.process.poll() is not None:
            wrong.append(f"{attack.__name__}: the server ended with {server.process.returncode}")
            server = Server(args.forerun, args.model, flags)
    if server.resident() - before > 300 << 20:
        wrong.append(f"memory grew from {before >> 20} to {server.resident() >> 20} MiB")

    server.process.kill()
    server.process.wait()
    again = Server(args.forerun, args.model, [*flags, "--port", str(server.port)])
    expect(status(again, post(json.dumps(GOOD).encode())), 200)
    print("after kill -9 it answers on the same port")
    finished, refused = end_under_load(again)
    code = again.process.wait(60)
    print(f"SIGTERM under load: {finished} of 8 running answers finished, {refused} new ones got 503, exit status {code}")
    if (finished, code) != (8, 0) or not refused:
        wrong.append("SIGTERM under load")
    for line in wrong:
        print("WRONG:", line)
    print("no crash, others served, memory bounded" if not wrong else f"{len(wrong)} things wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
