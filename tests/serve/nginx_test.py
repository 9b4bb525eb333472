"""examples/serving with the real nginx: TLS, two replicas, a conversation that stays with its replica, one that drains.

usage: nginx_test.py FORERUN   (needs Debian's nginx-light and openssl)
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from serve_support import FORERUN, Server, events, text_of, user

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "serving")
CHAT = "/v1/chat/completions"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Nginx(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.servers = [Server(self.folder), Server(self.folder)]
        self.addCleanup(lambda: [s.stop() for s in self.servers])
        cert, key = (os.path.join(self.folder, n) for n in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        self.port = free_port()
        with open(os.path.join(EXAMPLES, "nginx.conf")) as f:
            text = f.read()
        for old, new in (("/etc/forerun/cert.pem", cert), ("/etc/forerun/key.pem", key), ("listen 443", f"listen {self.port}"),
                         ("127.0.0.1:8081", f"127.0.0.1:{self.servers[0].port}"), ("/run/nginx.pid", f"{self.folder}/pid"),
                         ("127.0.0.1:8082", f"127.0.0.1:{self.servers[1].port}")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w") as f:
            f.write(text)
        self.tls = ssl.create_default_context(cafile=cert)
        self.nginx = subprocess.Popen(["nginx", "-c", path, "-e", os.path.join(self.folder, "error"), "-g",
                                       "daemon off; user root;" if os.getuid() == 0 else "daemon off;"])
        self.addCleanup(self.nginx.wait)
        self.addCleanup(self.nginx.terminate)
        self.servers[0].wait_until(self.answers)

    def answers(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None, session=None):
        c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls)
        c.request(method, path, json.dumps(body) if body else None, {"X-Session-Id": session} if session else {})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, data

    def seen(self, server):
        return sum(r.get("path") == CHAT and r.get("status") == 200 for r in server.lines())

    def test_conversations_stay_and_draining_replicas_lose_none(self):
        body = {"messages": user("a b a b"), "seed": 1, "max_tokens": 20, "ignore_eos": True}
        expected = json.loads(self.ask("POST", CHAT, body)[1])["choices"][0]["message"]["content"]
        counts = []
        for session in range(12):
            before = [self.seen(s) for s in self.servers]
            for _ in range(3):
                status, data = self.ask("POST", CHAT, body, f"session-{session}")
                self.assertEqual(status, 200)
                self.assertEqual(json.loads(data)["choices"][0]["message"]["content"], expected)
            counts.append([self.seen(s) - b for s, b in zip(self.servers, before)])
        self.assertTrue(all(sorted(c) == [0, 3] for c in counts), counts)
        self.assertEqual(len({tuple(c) for c in counts}), 2)  # both have some
        _, data = self.ask("POST", CHAT, {**body, "stream": True})
        chunks = [json.loads(e) for e in events(data.splitlines(keepends=True)) if e != "[DONE]"]
        self.assertEqual(text_of(chunks), expected)
        self.servers[0].process.send_signal(signal.SIGTERM)
        for session in range(30):
            self.assertEqual(self.ask("POST", CHAT, body, f"session-{session}")[0], 200)

    def test_the_unit_starts_the_command_with_flags_that_it_has(self):
        with open(os.path.join(EXAMPLES, "forerun@.service")) as f:
            unit = f.read()
        flags = set(re.findall(r"--[a-z-]+", unit))
        text = subprocess.run([FORERUN, "serve", "--help"],
                              capture_output=True, text=True, check=True).stdout
        self.assertTrue(flags)
        for flag in flags - {"--now"}:
            self.assertIn(flag, text)
        if shutil.which("systemd-analyze"):
            path = os.path.join(self.folder, "forerun@8081.service")
            with open(path, "w") as f:
                f.write(unit.replace("/usr/local/bin/forerun", "/bin/true"))
            r = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
            self.assertNotIn("forerun@", r.stderr)


if __name__ == "__main__":
    unittest.main()
