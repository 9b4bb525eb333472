"""Images of the server: those of the command, streams with previews, texts beside them, errors.

usage: serve_images_test.py FORERUN   (runs on small models, needs no download and no package)
"""

import base64
import json
import os
import subprocess
import tempfile
import threading
import unittest

from serve_support import FORERUN, WORDS, Served

IMAGES, COMPLETIONS = "/v1/images/generations", "/v1/completions"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
DIT = os.path.join(DATA, "dit", "reference_pixel")  # 5 classes of 16 x 16 grey pixels
MAR = os.path.join(DATA, "..", "..", "models", "fashion-mnist", "mar")
PNG = b"\x89PNG\r\n\x1a\n"


def alone(*flags):
    """The picture that the command makes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "x.png")
        subprocess.run([FORERUN, "generate", *flags, "--out", out, "--threads", "1"], check=True, capture_output=True,
                       timeout=120)
        with open(out, "rb") as f:
            return f.read()


class Images:
    """What holds for models of either kind. Subclasses give `model`, `drafter` and `classes`."""

    def body(self, **fields):
        return {"prompt": "1", "seed": 7, "steps": 8, "guidance": 1.0, **fields}

    def made(self, **fields):
        status, answer = self.server.post(IMAGES, self.body(**fields))
        self.assertEqual(status, 200, answer)
        return [base64.b64decode(d["b64_json"]) for d in answer["data"]], answer

    def events(self, **fields):
        """(type, document) of a stream."""
        c = self.server.connect()
        try:
            c.request("POST", IMAGES, json.dumps(self.body(stream=True, **fields)))
            r = c.getresponse()
            self.assertEqual((r.status, r.headers["Content-Type"]), (200, "text/event-stream"))
            lines = [line.decode().rstrip("\n") for line in r]
        finally:
            c.close()
        return [(a[len("event: "):], json.loads(b[len("data: "):])) for a, b in zip(lines, lines[1:])
                if a.startswith("event: ")]

    def test_an_image_is_the_one_that_the_command_makes_alone(self):
        flags = ["-m", self.model, "--class", "1", "--count", "1", "--steps", "8", "--cfg", "1", "--seed", "7"]
        pictures, answer = self.made(speculative={"off": True})
        self.assertEqual(pictures, [alone(*flags, "--drafter", "none")])
        self.assertEqual(answer["forerun"]["seed"], 7)
        self.assertEqual(answer["forerun"]["draft_n"], 0)
        self.assertEqual((answer["size"], answer["output_format"]), (self.size, "png"))
        drafted, answer = self.made()
        self.assertEqual(drafted, [alone(*flags, "--drafter", self.drafter, "--fixed-draft")])
        self.assertGreater(answer["forerun"]["draft_n"], 0)

    def test_several_images_differ_and_are_the_same_every_time(self):
        several, _ = self.made(n=3)
        self.assertEqual(len(set(several)), 3)
        self.assertEqual(several[0], self.made()[0][0])
        self.assertEqual(self.made(n=3)[0], several)

    def test_a_stream_shows_previews_and_ends_with_the_image(self):
        events = self.events(partial_images=2, n=2)
        types = [t for t, _ in events]
        self.assertEqual(types.count("image_generation.completed"), 2)
        partial = [d for t, d in events if t == "image_generation.partial_image"]
        self.assertTrue(partial)
        whole = {d["index"]: base64.b64decode(d["b64_json"]) for t, d in events if t.endswith("completed")}
        self.assertEqual([whole[0], whole[1]], self.made(n=2)[0])
        for index in (0, 1):
            shown = [d for d in partial if d["index"] == index]
            self.assertLessEqual(len(shown), 2)
            self.assertEqual([d["partial_image_index"] for d in shown], list(range(len(shown))))
            for d in shown:
                self.assertTrue(base64.b64decode(d["b64_json"]).startswith(PNG))
                self.assertEqual(d["size"], self.size)
        self.assertEqual({t for t, _ in self.events()}, {"image_generation.completed"})

    def test_texts_beside_images_are_those_alone(self):
        text = self.server.alone(WORDS, 3, 40, "--ignore-end", "--temp", "1", chat=False)
        picture = self.made()[0]
        pictures, threads = [], []
        for _ in range(2):
            threads.append(threading.Thread(target=lambda: pictures.append(self.made()[0])))
            threads[-1].start()
        _, answer = self.server.post(COMPLETIONS, {"prompt": WORDS, "seed": 3, "max_tokens": 40, "ignore_eos": True})
        for t in threads:
            t.join()
        self.assertEqual(answer["choices"][0]["text"], text)
        self.assertEqual(pictures, [picture] * 2)

    def test_a_client_that_leaves_ends_its_image(self):
        before = self.server.metrics()["forerun_images_total"]
        c = self.server.connect()
        c.request("POST", IMAGES, json.dumps(self.body(stream=True, steps=1000, partial_images=1)))
        c.getresponse().readline()
        c.close()
        self.server.wait_until(lambda: self.server.metrics()["forerun_images_total"] == before + 1)
        self.server.wait_until(lambda: [r for r in self.server.lines() if r["path"] == IMAGES and r["status"] == 499])

    def test_errors_name_the_field(self):
        for field, value in (("prompt", "a cat"), ("prompt", str(self.classes)), ("prompt", "-1"), ("prompt", 1),
                             ("prompt", None), ("n", 0), ("n", 11), ("seed", 1.5), ("steps", 0), ("steps", 1001),
                             ("guidance", -1), ("size", "1024x1024"), ("response_format", "url"),
                             ("output_format", "webp"), ("partial_images", 1), ("partial_images", 21), ("stream", "yes"),
                             ("speculative", {"off": 1})):
            error = self.refused(400, IMAGES, self.body(**{field: value}))
            self.assertTrue(error["param"].startswith(field), (field, value, error))
        self.refused(404, IMAGES, self.body(model="dall-e-3"), "model", [self.id])
        self.refused(404, COMPLETIONS, {"prompt": "a", "model": self.id}, "model")
        status, _ = self.server.post(IMAGES, self.body(model=self.id, size=self.size, response_format="b64_json",
                                                       quality="auto", user="me"))
        self.assertEqual(status, 200)

    def test_it_is_named_beside_the_language_model(self):
        ids = [m["id"] for m in json.loads(self.server.get("/v1/models")[2])["data"]]
        self.assertEqual(ids, ["chat", self.id])
        self.assertEqual(json.loads(self.server.get(f"/v1/models/{self.id}")[2])["id"], self.id)
        self.assertEqual(json.loads(self.server.get("/props")[2])["forerun"]["image_model"], self.id)


class DiffusionImages(Images, Served):
    model, id, drafter, classes, size = DIT, "reference_pixel", "frozen", 5, "16x16"
    flags = ("--image-model", DIT, "--image-drafter", "frozen", "--fixed-draft")


class TokenImages(Images, Served):
    model, id, drafter, classes, size = MAR, "mar", "self", 10, "32x32"
    flags = ("--image-model", MAR, "--image-drafter", "self", "--fixed-draft")


class WithoutImages(Served):
    def test_there_is_nothing(self):
        self.refused(404, IMAGES, {"prompt": "1"}, "model", ["--image-model"])


if __name__ == "__main__":
    unittest.main()
