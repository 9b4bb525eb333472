"""The server under load, under attack and at its end: others are served meanwhile, and memory stays bounded.

usage: serve_abuse_test.py FORERUN   (runs on a tiny model, needs no download and no package)
"""

import json
import os
import random
import shutil
import signal
import socket
import tempfile
import threading
import time
import unittest

from serve_support import WORDS, Served, Server, events, in_threads, text_of, user

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
LONG = {"messages": user("a b"), "max_tokens": 190, "ignore_eos": True, "stream": True}


def raw(server, data, timeout=30):
    """What the server answers to these bytes, until it closes."""
    with server.socket(timeout) as s:
        try:
            s.sendall(data)
            out = b""
            while piece := s.recv(65536):
                out += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return out


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def head(path=CHAT, method="POST", **fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    return ("\r\n".join(lines + [f"{k}: {v}" for k, v in fields.items()]) + "\r\n\r\n").encode()


def send(server, body):
    return status_of(raw(server, head(**{"Content-Length": len(body)}) + body))


class Load(Served):
    def test_64_streams_at_once_get_the_texts_they_get_alone(self):
        # A tenth of the clients leaves in the middle.
        texts = {i: self.server.alone(f"{WORDS} {i}", i, 60, "--temp", "1", "--ignore-end") for i in range(8)}
        left = []

        def run(i):
            body = {"messages": user(f"{WORDS} {i % 8}"), "seed": i % 8, "max_tokens": 60, "ignore_eos": True}
            if i % 10 == 9:
                c = self.server.connect()
                c.request("POST", CHAT, json.dumps({**body, "stream": True, "max_tokens": 190}))
                response = c.getresponse()
                for _ in range(5):
                    response.readline()
                c.close()
                left.append(i)
            elif i % 3 == 0:
                status, answer = self.server.post(CHAT, body)
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["choices"][0]["message"]["content"], texts[i % 8])
            else:
                self.assertEqual(text_of(self.server.stream(CHAT, body)), texts[i % 8])
        in_threads(64, run)
        self.assertEqual(len(left), 6)
        self.server.wait_until(lambda: self.server.metrics()["forerun_texts_running"] == 0)
        self.assertEqual(self.server.metrics()["forerun_texts_waiting"], 0)

    def test_a_client_that_leaves_ends_its_text(self):
        for stream in (True, False):
            seed = 100 + stream
            c = self.server.connect()
            c.request("POST", CHAT, json.dumps({**LONG, "stream": stream, "seed": seed, "n": 32}))
            if stream:
                c.getresponse().readline()
            else:
                c.sock.sendall(b"GET")  # of a next request: it hides nothing
                time.sleep(0.05)
            c.sock.close()
            c.close()
            self.server.wait_until(lambda: any(r.get("seed") == seed for r in self.server.lines()))
            line = [r for r in self.server.lines() if r.get("seed") == seed][0]
            self.assertEqual(line["status"], 499)
            self.assertLess(line["tokens"], 32 * 190)

    def test_two_requests_on_one_connection_sent_at_once(self):
        body = json.dumps({"prompt": "a b", "max_tokens": 5, "seed": 1}).encode()
        one = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        answer = raw(self.server, one + one + head("/health", "GET"))
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3)
        self.assertTrue(answer.endswith(b'{"status":"ok"}'))

    def test_http_1_0_gets_its_stream_unchunked(self):
        body = json.dumps({**LONG, "max_tokens": 5}).encode()
        answer = raw(self.server, b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
        self.assertNotIn(b"chunked", answer)
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"))


class Abuse(Served):
    flags = ("--timeout", "1")

    def tearDown(self):
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"null", b'"a"', b"{]", b'{"messages": }', b"\xff\xfe", b'{"prompt": "\xff"}',
                     b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"a":' * 50_000, b'{"messages": NaN}', b"{} {}", b"\x00" * 100,
                     b'{"messages": [{"role": "user", "content": "\\ud800"}]}', b"1" * 1_000_000):
            self.assertEqual(send(self.server, body), 400, body[:40])

    def test_bodies_that_are_too_large(self):
        before = self.server.memory()
        self.assertEqual(status_of(raw(self.server, head(**{"Content-Length": 100_000_000}))), 413)
        self.assertEqual(status_of(raw(self.server, head(**{"Content-Length": 10**25}))), 400)

        def flood(_):
            block = b"10000\r\n" + b" " * 65536 + b"\r\n"
            try:
                with self.server.socket() as s:
                    s.sendall(head(**{"Transfer-Encoding": "chunked"}))
                    for _ in range(1600):
                        s.sendall(block)
            except (ConnectionResetError, BrokenPipeError):
                pass
        in_threads(4, flood)
        answer = raw(self.server, head(**{"Transfer-Encoding": "chunked"}) + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 140)
        self.assertEqual(status_of(answer), 413)
        self.assertLess(self.server.memory() - before, 150 << 20)

    def test_heads_that_are_too_large_or_wrong(self):
        self.assertEqual(status_of(raw(self.server, head("/health", "GET", **{f"X-{i}": "y" * 50 for i in range(2000)}))), 431)
        self.assertEqual(status_of(raw(self.server, head("/health", "GET", X="y" * 100_000))), 431)
        self.assertEqual(status_of(raw(self.server, head("/" + "a" * 100_000, "GET"))), 431)
        for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                     b"GET / HTTP/9.9\r\n\r\n", b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
                     b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            self.assertIn(status_of(raw(self.server, data)), (400, None), data)

    def test_a_client_that_is_asked_to_wait_for_100_continue(self):
        body = json.dumps({"content": "a"}).encode()
        with self.server.socket() as s:
            s.sendall(head("/tokenize", **{"Content-Length": len(body), "Expect": "100-continue"}))
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            s.sendall(body)
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200 OK"))
        with self.server.socket() as s:
            s.sendall(head("/nothing", **{"Content-Length": len(body), "Expect": "100-continue"}))
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 404"))

    def test_slow_senders_are_given_up_and_hold_nobody_up(self):
        slow = [self.server.socket() for _ in range(50)]
        for s in slow:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nX: ")
        ends = time.monotonic() + 2.5
        answered = 0
        while time.monotonic() < ends:
            for s in slow:
                try:
                    s.sendall(b"a")
                except OSError:
                    pass
            began = time.monotonic()
            self.assertEqual(self.server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 2})[0], 200)
            answered += 1
            self.assertLess(time.monotonic() - began, 10)
        self.assertGreater(answered, 3)
        for s in slow:
            s.settimeout(5)
            try:
                self.assertEqual(status_of(s.recv(1000)), 408)
            except ConnectionResetError:
                pass
            s.close()

    def test_a_slow_reader_is_given_up_and_holds_nobody_up(self):
        before = self.server.memory()
        body = json.dumps({**LONG, "n": 64, "logprobs": True, "top_logprobs": 20, "seed": 77}).encode()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(30)
        s.connect((self.server.host, self.server.port))
        s.sendall(head(**{"Content-Length": len(body)}) + body)
        for _ in range(10):
            self.assertEqual(self.server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 2})[0], 200)
        self.server.wait_until(lambda: any(r.get("seed") == 77 for r in self.server.lines()))
        line = [r for r in self.server.lines() if r.get("seed") == 77][0]
        self.assertEqual(line["status"], 499)
        self.assertLess(self.server.memory() - before, 100 << 20)
        s.close()

    def test_thousands_of_idle_connections(self):
        before = self.server.memory()
        idle = [self.server.socket() for _ in range(3000)]
        try:
            self.server.wait_until(lambda: self.server.metrics()["forerun_connections"] >= 3000)
            self.assertEqual(self.server.post(CHAT, {"messages": user("a"), "max_tokens": 3})[0], 200)
            self.assertLess(self.server.memory() - before, 3000 * 10_000)
        finally:
            for s in idle:
                s.close()
        self.server.wait_until(lambda: self.server.metrics()["forerun_connections"] < 10)

    def test_mutated_requests(self):
        rng = random.Random(23)
        body = json.dumps({"messages": user("a b"), "max_tokens": 2, "stop": ["x"], "seed": 1, "stream": True,
                           "speculative": {"rounds": True}}).encode()
        good = head(**{"Content-Length": len(body)}) + body
        for _ in range(1500):
            data = bytearray(good)
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(data))
                what = rng.random()
                if what < 0.4:
                    data[at] = rng.randrange(256)
                elif what < 0.6:
                    del data[at:at + rng.randint(1, 9)]
                elif what < 0.8:
                    data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
                else:
                    data[at:at] = rng.choice([b"[" * 50, b"-1", b"1e999", b'"', b"\r\n", b"null", b"\xf0\x9f"])
            with self.server.socket(5) as s:
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                    s.recv(4096)
                except OSError:
                    pass
        self.assertIsNone(self.server.process.poll())


class Keys(Served):
    flags = ("--api-key-file", "keys")

    @classmethod
    def setUpClass(cls):
        path = os.path.join(tempfile.mkdtemp(), "keys")
        with open(path, "w") as f:
            f.write("# comment\n\nfirst-key\n second-key \n")
        cls.flags = ("--api-key-file", path)
        super(Keys, cls).setUpClass()
        shutil.rmtree(os.path.dirname(path))

    def test_a_key_is_needed(self):
        body = {"messages": user("a"), "max_tokens": 2}
        for value in (None, "", "Bearer", "Bearer ", "Bearer first", "Bearer first-keyy", "Basic first-key", "first-key",
                      "Bearer # comment"):
            headers = {} if value is None else {"Authorization": value}
            self.assertEqual(self.refused(401, CHAT, body, headers=headers)["code"], "invalid_api_key")
        for value in ("Bearer first-key", "Bearer second-key", "bearer first-key"):
            self.assertEqual(self.server.post(CHAT, body, headers={"Authorization": value})[0], 200)
        for path in ("/metrics", "/props", "/v1/models"):
            self.assertEqual(self.server.get(path)[0], 401)
        for path in ("/health", "/"):
            self.assertEqual(self.server.get(path)[0], 200)

    def test_an_unknown_client_cannot_send_a_body(self):
        began = time.monotonic()
        answer = raw(self.server, head(**{"Content-Length": 8_000_000}) + b" " * 1000)
        self.assertEqual(status_of(answer), 401)
        self.assertLess(time.monotonic() - began, 20)


class Queue(Served):
    flags = ("--max-active", "1", "--max-queue", "3")

    def test_requests_beyond_the_queue_are_told_to_come_back(self):
        codes, retry = [], []

        def run(i):
            status, headers, _ = self.server.request("POST", CHAT, {**LONG, "seed": i})
            codes.append(status)
            if status == 429:
                retry.append(int(headers["Retry-After"]))
        in_threads(24, run)
        self.assertEqual(set(codes), {200, 429})
        self.assertGreaterEqual(codes.count(200), 4)
        self.assertTrue(all(1 <= r <= 60 for r in retry))
        self.assertEqual(self.server.post(CHAT, {**LONG, "stream": False})[0], 200)


class End(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_sigterm_lets_answers_finish_and_refuses_new_ones(self):
        server = Server(self.folder, "--max-active", "2")
        texts, began = {}, threading.Barrier(9)

        def run(i):
            c = server.connect()
            c.request("POST", CHAT, json.dumps({**LONG, "seed": i, "n": 4}))
            response = c.getresponse()
            first = response.readline()
            began.wait()
            chunks = list(events([first, *response]))
            self.assertEqual(chunks[-1], "[DONE]")
            texts[i] = text_of([json.loads(e) for e in chunks[:-1]], 3)
            c.close()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        began.wait()
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: any(r.get("event") == "draining" for r in server.lines()))
        seen = set()
        try:
            while len(texts) < 8:
                seen.add(server.post(CHAT, {"messages": user("a"), "max_tokens": 1})[0])
                seen.add(server.get("/health")[0])
        except OSError:
            pass  # it has ended
        for t in threads:
            t.join()
        self.assertEqual(len(texts), 8)
        self.assertEqual(seen, {503})
        self.assertEqual(server.process.wait(20), 0)
        server.stop()

    def test_a_second_signal_ends_it_at_once(self):
        server = Server(self.folder, "--max-active", "1")
        with server.socket() as s:
            body = json.dumps({**LONG, "n": 64}).encode()
            s.sendall(head(**{"Content-Length": len(body)}) + body)
            s.recv(100)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(10), 130)
        server.stop()

    def test_after_kill_9_it_starts_again_on_the_same_port(self):
        server = Server(self.folder)
        c = server.connect()
        c.request("POST", CHAT, json.dumps(LONG))
        c.getresponse().readline()
        c.close()
        server.process.kill()
        server.stop()
        again = Server(self.folder, port=server.port)
        self.assertEqual(again.post(CHAT, {"messages": user("a"), "max_tokens": 1})[0], 200)
        self.assertEqual(again.stop(), 0)

    def test_wrong_flags_are_one_line(self):
        taken = socket.create_server(("127.0.0.1", 0))
        for flags, word in ((["--port", str(taken.getsockname()[1])], "--port"), (["--host", "nowhere"], "--host"),
                            (["--memory", "lots"], "--memory"), (["--memory", "1KiB"], "16MiB"),
                            (["--api-key-file", "/no/such"], "/no/such"),
                            (["--rule", "typical"], "typical"), (["--drafter", "dflash:/no/such"], "/no/such")):
            with self.assertRaises(RuntimeError) as failed:
                Server(self.folder, *flags)
            self.assertIn(word, str(failed.exception).strip().splitlines()[-1])
        taken.close()


if __name__ == "__main__":
    unittest.main()
