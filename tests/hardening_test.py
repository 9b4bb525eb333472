"""Hostile files and calls. Each test failed before the defect that it covers was fixed; POINTS lists the defects.

usage: hardening_test.py FORERUN [TEST ...]   (runs on the tiny models of tests/data, needs no download)
"""

import gzip
import hashlib
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import cli_support
from cli_support import FORERUN, GGUF, LLAMA, forerun, make_chat_model
from pictures import write_data

TESTS = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(os.path.dirname(TESTS), "tools")
DATA = os.path.join(TESTS, "data")
DIT = os.path.join(DATA, "dit", "reference_pixel")  # 5 classes of 16 x 16 grey pixels


class Command(cli_support.Command):
    """The command's own flags, paths and lines."""

    def setUp(self):
        super().setUp()
        self.dit = self.path("dit")
        shutil.copytree(DIT, self.dit)
        self.grid = self.path("grid.png")

    def prompts(self, **more):
        return self.path("prompts.jsonl", json.dumps({"prompt": "one two three one two", **more}).encode())

    def images(self, *more, out=None):
        return ("generate", "-m", self.dit, "--steps", "6", "--count", "2", "--threads", "1", "--out",
                self.grid if out is None else out, *more)

    def document(self, *args):
        r = forerun(*args, "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def content(self, path):
        with open(path, "rb") as f:
            return f.read()

    # --- one set of verbs ---------------------------------------------------------------------------------------

    def test_help_shows_the_flags_of_texts_and_images_whatever_the_arguments(self):
        titles = ("Model:", "Text (language models):", "Images:", "Images (Diffusion Transformers):",
                  "Images (token by token):", "Drafting:", "Output:")
        for verb, text in (("generate", "--prompt"), ("bench", "--prompts"), ("certify", "--prompts")):
            for model in ((), ("-m", self.dit), ("-m", GGUF)):
                r = forerun(verb, *model, "--help")
                self.assertEqual(r.returncode, 0)
                for word in (*titles, text, "--temp", "--cfg", "--steps", "--max-draft", "--drafter", "default auto",
                             "auto, f32, bf16, int8"):
                    if (verb, word) != ("bench", "--drafter"):
                        self.assertIn(word, r.stdout)

    def test_a_flag_for_the_other_kind_is_refused_by_name(self):
        self.refused(2, "generate", "-m", self.dit, "-p", "x",
                     says=[f"--prompt is for language models; {self.dit} holds a Diffusion Transformer"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--cfg", "2",
                     says=[f"--cfg is for models that make images; {GGUF} holds a language model"])
        self.refused(2, "generate", "-m", self.dit, "--final-step", "noisy",
                     says=[f"--final-step is for image-token models; {self.dit} holds a Diffusion Transformer"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--rule", "stepwise", says=["stepwise", "images"])
        self.refused(2, "certify", "-m", self.dit, "--tokens", "5", says=["--tokens"])
        self.refused(2, "bench", "-m", GGUF, "--prompts", self.prompts(), "--drafts", "3", says=["--drafts"])
        self.refused(2, *self.images("--rule", "typical"), says=["typical", "relax"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--rule", "relax", says=["relax", "images"])
        self.refused(2, "generate", "-m", self.dit, says=["--out"])
        self.refused(2, "chat", "-m", self.dit, says=["Diffusion Transformer"])

    def test_a_path_that_is_not_there_says_so(self):
        for call in (("generate", "--cfg", "2", "--out", self.grid), ("generate", "-p", "x"), ("certify", "--steps", "3"),
                     ("bench",), ("info",), ("chat",), ("cost",)):
            model = ("no.gguf",) if call[0] == "info" else ("-m", "no.gguf")
            self.refused(2, *call, *model, says=["no.gguf: no such file or folder"])

    def test_unknown_commands_and_flags_are_one_line_that_says_what_there_is(self):
        self.refused(2, "generat", says=["'generat' is no command", "generate", "evaluate"])
        self.refused(2, "generate", "-hf", "org/name", says=["-hf is -m here"])
        self.refused(2, "generate", "-m", "x", "--tmep", "0", says=["not expected: --tmep 0; did you mean --temp?"])
        self.refused(2, "serve", "-m", "x", "-c", "4096", says=["-c is not needed", "forerun serve --help"])
        self.refused(2, "serve", "x", says=["a model is named by -m"])
        self.refused(2, "info", "-m", "x", says=["named without a flag"])
        self.refused(2, "help", "nonsense", says=["'nonsense' is no command"])
        # A value is no flag, whatever it begins with.
        self.refused(1, "generate", "-m", self.path("no.gguf", b"GGUF"), "-p", "-st", says=["no.gguf"])
        self.refused(2, says=["generate", "--help"])
        self.refused(2, "train", "everything", says=["dflash", "classifier"])
        self.refused(2, "generate", "-m", GGUF, "--no-such-flag", says=["--no-such-flag", "generate --help"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--temp", "-1", says=["--temp", "0 to 1000"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--rule", "magic", says=["magic", "shared-noise"])

    # --- one name and meaning of the draft length ---------------------------------------------------------------

    def test_draft_lengths_mean_the_same_for_texts_and_images_and_former_names_work(self):
        drafted = ("--drafter", "asd", "--seed", "3")
        images = self.document(*self.images(*drafted, "--max-draft", "3", "--fixed-draft"))
        picture = self.content(self.grid)
        text = self.document("generate", "-m", GGUF, "--raw", "-p", "a b a b", "-n", "8", "--max-draft", "3",
                             "--fixed-draft")
        same = ("model precision threads drafter rule max_draft fixed_draft seed seconds exact tau rounds outputs drafted "
                "examined accepted target_passes seconds_drafter seconds_target interrupted").split()
        for document in (images, text):
            self.assertEqual([key for key in same if key not in document], [])
            self.assertEqual((document["max_draft"], document["fixed_draft"]), (3, True))
        os.remove(self.grid)
        r = forerun(*self.images(*drafted, "-L", "4", "--lanes", "1"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("--max-draft 3 --fixed-draft", r.stderr)
        self.assertEqual(self.content(self.grid), picture)
        self.assertIs(self.document(*self.images(*drafted, "--draft-length", "auto"))["fixed_draft"], False)
        self.assertIs(self.document(*self.images("--no-recall"))["reuse"], False)
        rows = self.document("bench", "-m", self.dit, "--steps", "6", "--count", "1", "--drafters", "asd",
                             "--draft-lengths", "2,auto")["results"]
        self.assertEqual([(r["max_draft"], r["fixed_draft"]) for r in rows], [(0, True), (1, True), (63, False)])
        j = self.document("cost", "-m", GGUF, "--rows", "1", "--prefix", "8", "--repeats", "1", "--lanes", "2")
        self.assertEqual(j["sequences"], 2)
        self.refused(2, "distill", "-m", "no.gguf", "--out", self.path("x"), "--lanes", "2", says=["no.gguf"])
        for wrong in ("0", "1025", "many"):
            self.refused(2, *self.images("-L", wrong), says=[wrong, "1024"])
        self.assertNotIn("--lanes", forerun("generate", "--help").stdout)

    def test_a_precision_that_cannot_be_had_is_refused_with_what_can(self):
        self.refused(2, *self.images("--precision", "int8"), says=["int8", "f32", "auto"])

    # --- inputs stay --------------------------------------------------------------------------------------------

    def test_an_output_never_replaces_an_input(self):
        model, weights = self.path("m.gguf"), os.path.join(self.dit, "model.safetensors")
        shutil.copy(GGUF, model)
        link, hard = self.path("link.npy"), self.path("hard.npy")
        os.symlink(model, link)
        os.link(model, hard)
        prompts = self.prompts()
        before = {path: self.content(path) for path in (model, weights, prompts)}
        for out in (model, link, hard):
            self.refused(2, "logits", "-m", model, "-p", "a", "--raw", "--out", out, says=["--out", out])
        self.refused(2, *self.images(out=weights), says=["--out", weights])
        self.refused(2, *self.images("--trace", weights), says=["--trace", weights])
        self.refused(2, *self.images("--trace", self.grid), says=["--out and --trace are one file"])
        self.refused(2, "profile", "-m", self.dit, "-d", "asd", "--out", weights, says=["--out", weights])
        self.refused(2, "bench", "-m", model, "--prompts", prompts, "--raw", "--report", prompts,
                     says=["--report", prompts])
        self.refused(2, "bench", "-m", LLAMA, "--prompts", prompts, "--raw", "--drafters", "draft-model:" + model,
                     "--report", model, says=["--report", model])
        text, schema, law = self.path("prompt.txt", b"a b"), self.path("s.json", b"{}"), self.path("law.arpa", b"x")
        before.update({path: self.content(path) for path in (text, schema, law)})
        dream = self.path("dream")
        shutil.copytree(os.path.join(LLAMA, "..", "..", "diffusion_lm", "dream"), dream)
        os.mkdir(self.path("m.drafter"))
        beside = self.path(os.path.join("m.drafter", "config.json"), b"{}")
        for read, args in ((text, ("-f", text)), (schema, ("-p", "a", "--json-schema", schema)),
                           (law, ("-p", "a", "-d", f"diffuspec:{dream}:ngram={law}")),
                           (os.path.join(dream, "config.json"), ("-p", "a", "-d", f"diffuspec:{dream}:most=2")),
                           (beside, ("-p", "a"))):
            self.refused(2, "generate", "-m", model, "--raw", *args, "--trace", read, says=["would replace", read])
        self.refused(2, "generate", "-m", dream, "--raw", "-f", text, "--trace", text, says=["would replace"])
        self.assertEqual({path: self.content(path) for path in before}, before)

    def test_outputs_that_cannot_be_written_are_found_out_before_the_work(self):
        long = "a b " * 400  # beyond the context: found out when the work begins
        for out, code in (("", 2), ("/no/such/folder/x", 1), (self.dir, 1)):
            self.refused(code, "logits", "-m", GGUF, "-p", long, "--raw", "--out", out, says=["--out" if not out else out])
            self.refused(code, *self.images("--drafter", "lookup", out=out), says=["--out" if not out else out])
            self.refused(code, *self.images("--drafter", "lookup", "--trace", out), says=["--trace" if not out else out])
            self.refused(code, "profile", "-m", self.dit, "-d", "lookup", "--out", out, says=["--out" if not out else out])
            self.refused(code, "bench", "-m", GGUF, "--prompts", self.path("long.jsonl", json.dumps({"prompt": long}).encode()),
                         "--raw", "--report", out, says=["--report" if not out else out])

    def test_an_output_without_a_name_is_refused_before_any_file_is_read(self):
        none = ("--data", "none", "--out", "")
        for args in (("distill", "-m", "none", "--self-prompts", "1", "--out", ""), ("train", "dit", *none),
                     ("train", "classifier", *none), ("train", "free", "-t", "none", *none),
                     ("train", "dflash", "-t", "none", *none)):
            self.refused(2, *args, says=["--out: ''"])
        self.refused(2, "evaluate", "--classifier", "none", "--data", "none", "-m", self.dit, "--keep", "", says=["--keep: ''"])

    def test_folders_in_place_of_files_are_refused_as_such(self):
        self.refused(2, *self.images("-d", "asd", "--rule", "relax", "--profile", self.dir), says=["profile", "folder"])
        self.refused(2, "certify", "-m", GGUF, "--prompts", self.dir, says=["prompts file", "folder"])
        self.refused(2, "generate", "-m", GGUF, "-f", self.dir, says=["prompt file", "folder"])

    def test_json_of_prompts_and_profiles_has_bounds(self):
        deep = b"[" * 100000
        self.refused(2, "certify", "-m", GGUF, "--prompts", self.path("deep.jsonl", b'{"prompt": "a", "x": ' + deep + b"\n"),
                     says=["deep.jsonl:1", "nested deeper than"])
        self.refused(2, *self.images("-d", "asd", "--rule", "relax", "--profile", self.path("deep.json", deep)),
                     says=["deep.json"])
        self.refused(2, "certify", "-m", GGUF, "--prompts", "/dev/zero", says=["/dev/zero", "more than 256 MiB"])

    def test_numbers_that_do_not_fit_and_flags_without_effect_are_refused(self):
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--raw", "--seed", "18446744073709551616",
                     says=["--seed", "18446744073709551616"])
        self.refused(2, *self.images("--seed", "-1"), says=["--seed"])
        self.refused(2, *self.images("--vae", self.dit), says=["--vae", "pixels"])

    def test_what_drafts_nothing_is_no_pass(self):
        r = forerun("certify", "-m", GGUF, "--drafter", "none", "--prompts", self.prompts(), "--raw", "--tokens", "50")
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("NOTHING DRAFTED", r.stdout)

    # --- streams and terminals ----------------------------------------------------------------------------------

    def shell(self, line, *args, **kwargs):
        return subprocess.run(["sh", "-c", line, FORERUN, *args], timeout=120, stdin=subprocess.DEVNULL, **kwargs)

    def test_closed_streams_do_not_become_files(self):
        page = self.path("bench.html")
        args = ("bench", "-m", GGUF, "--prompts", self.prompts(), "-n", "8", "--temp", "0", "--raw", "--report", page)
        for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
            self.assertEqual(self.shell(f'exec "$0" "$@" {closed}', *args, capture_output=True).returncode, 0)
            html = self.content(page).strip().lower()
            self.assertTrue(html.startswith(b"<!doctype html>") and html.endswith(b"</html>"))
            self.assertNotIn(b"ms/pass  ms/draft", html)

    def test_control_characters_of_files_do_not_reach_the_terminal(self):
        evil = "\x1b[31mred\x1b]0;title\x07\u202e" + "x" * 5000
        lines = "\n".join(json.dumps({"prompt": "one two one two", "category": c}) for c in (evil, "b"))
        r = forerun("bench", "-m", GGUF, "--prompts", self.path("evil.jsonl", lines.encode()), "-n", "4", "--temp", "0",
                    "--raw")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("\\x1b[31mred", r.stdout)
        r.stderr += forerun("info", self.path("no\x1b[2J.gguf")).stderr + forerun("generate", "\x1b[2J").stderr
        for control in "\x1b\x07\u202e":
            self.assertNotIn(control, r.stdout + r.stderr)
        self.assertLess(max(map(len, r.stdout.splitlines())), 400)

    def test_terminals_that_show_no_colours_get_none(self):
        for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
            ours, theirs = pty.openpty()
            environment = {**os.environ, "TERM": "xterm", name: value}
            p = subprocess.run([FORERUN, "generate", "-m", GGUF, "-p", "a", "--raw", "-n", "2"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=theirs, env=environment, timeout=60)
            os.close(theirs)
            self.assertEqual(p.returncode, 0)
            shown = os.read(ours, 65536)
            os.close(ours)
            self.assertIn(b"tau", shown)
            self.assertNotIn(b"\x1b", shown)

    def test_chat_understands_lines_of_other_systems_and_advises_what_there_is(self):
        model = self.path("chat")
        make_chat_model(model)
        r = forerun("chat", "-m", model, "-n", "4", input="/exit\r\n", stdin=None)
        self.assertEqual((r.returncode, r.stdout), (0, ""), r.stderr)
        self.refused(2, "chat", "-m", GGUF, says=["chat template", "forerun generate --raw"])

    def test_a_closed_pipe_is_not_a_full_disk(self):
        r = self.shell('{ "$0" "$@"; echo $? >&2; } | true', "info", GGUF, "--tensors", "--json", stderr=subprocess.PIPE,
                       text=True)
        if r.stderr.strip() != "0":  # else all of it went into the pipe before it was closed
            self.assertIn("Broken pipe", r.stderr)
            self.assertNotIn("free some space", r.stderr)


HOSTILE = "\x1b[2J\x1b]0;title\x07" + 300 * "x"


def safetensors(header):
    return struct.pack("<Q", len(header)) + header


class Formats(cli_support.Command):
    """Files of a model that was downloaded from anywhere."""

    def model(self, **changed):
        """A tiny model's folder with other contents in some files; a key a__b is the file a.b."""
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        make_chat_model(folder)
        for name, content in changed.items():
            with open(os.path.join(folder, name.replace("__", ".")), "w") as f:
                f.write(content if isinstance(content, str) else json.dumps(content))
        return folder

    def with_fields(self, name, **fields):
        """The text of a file of the tiny model with some fields replaced."""
        with open(os.path.join(LLAMA, name)) as f:
            return dict(json.load(f), **fields)

    def fails(self, model, *says):
        """Generation ends with code 1 and one short line without control characters."""
        r = self.refused(1, "generate", "-m", model, "-p", "a", "-n", "1", "--drafter", "none", says=says)
        self.assertLess(len(r.stderr), 1000)
        self.assertTrue(r.stderr.strip().isprintable(), r.stderr)

    def test_pipes_devices_and_folders_are_refused_at_once(self):
        def zeros(path):
            os.symlink("/dev/zero", path)
        for name, make in (("config.json", os.mkfifo), ("generation_config.json", os.mkfifo),
                           ("tokenizer.json", zeros), ("tokenizer_config.json", os.mkfifo),
                           ("tokenizer_config.json", zeros), ("model.safetensors", os.mkfifo),
                           ("chat_template.jinja", os.mkfifo), ("chat_template.jinja", zeros),
                           ("chat_template.jinja", os.mkdir)):
            with self.subTest(name, made=make.__name__):
                folder = self.model()
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    os.remove(path)
                make(path)
                self.fails(folder, name, "is a folder" if make is os.mkdir else "is a pipe or device")

    def test_a_normalizer_that_doubles_its_text_is_stopped(self):
        double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
        tokenizer = self.with_fields("tokenizer.json", normalizer={"type": "Sequence", "normalizers": 32 * [double]})
        self.fails(self.model(tokenizer__json=tokenizer), "normalizer", "of 32 makes more than")

    def test_json_of_endless_empty_arrays_is_not_built(self):
        header = b'{"a":[' + 3_000_000 * b"[]," + b"[]]}"
        r = self.refused(1, "info", self.path("a.safetensors", safetensors(header)), says=("more than", "values"))
        self.assertLess(len(r.stderr), 1000)

    def test_a_grid_that_no_weights_bear_out_takes_no_memory(self):
        folder = self.path("dit")
        shutil.copytree(DIT, folder)
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        config.update(hidden_size=65536, num_heads=16, input_size=4096, patch_size=16)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        self.refused(1, "generate", "-m", folder, "--class", "0", "--out", self.path("x.png"),
                     says=("config.json", "too many"))

    def test_counts_are_compared_before_images_are_unpacked(self):
        def packed(shape, values):
            head = struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
            return gzip.compress(head + values)
        images = packed((1 << 22, 28, 28), os.urandom(1 << 16))[:-1000]  # claims 3 GB, and is cut off
        self.path("train-images-idx3-ubyte.gz", images)
        self.path("train-labels-idx1-ubyte.gz", packed((2,), b"\1\2"))
        self.refused(1, "train", "classifier", "--data", self.dir, "--out", self.path("out"),
                     says=("2 labels for the 4194304 images",))

    def test_strings_of_files_reach_the_terminal_escaped_and_cut(self):
        gguf = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
        for text in ("general.architecture", HOSTILE):
            gguf += struct.pack("<Q", len(text)) + text.encode() + (struct.pack("<I", 8) if text != HOSTILE else b"")
        self.fails(self.path("a.gguf", gguf), r"\x1b[2J")
        self.fails(self.model(config__json=self.with_fields("config.json", model_type=HOSTILE)), r"\x1b[2J")
        self.fails(self.model(config__json=self.with_fields("config.json", hidden_act=HOSTILE)), r"\x1b[2J")
        index = {"weight_map": {"a": HOSTILE[:20]}}
        self.fails(self.model(model__safetensors__index__json=index), r"\x1b[2J")
        header = json.dumps({HOSTILE: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
        r = forerun("info", "--tensors", self.path("a.safetensors", safetensors(header)))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout.replace("\n", "").isprintable())
        self.assertIn(r"\x1b[2J", r.stdout)

    def test_a_configuration_with_fewer_layers_than_the_file_is_refused(self):
        folder = self.model(config__json=self.with_fields("config.json", num_hidden_layers=2))
        for precision in ("f32", "int8"):
            self.refused(1, "generate", "-m", folder, "-p", "a", "--precision", precision, says=["2 layers", "holds more"])

    def test_end_tokens_that_the_model_lacks_are_named(self):
        for token in (4294967295, 1 << 20):
            self.fails(self.model(generation_config__json={"eos_token_id": [1, token]}),
                       "generation_config.json", str(token))
        with open(GGUF, "rb") as f:
            data = f.read()
        key = b"tokenizer.ggml.eos_token_id" + struct.pack("<I", 4)
        at = data.index(key) + len(key)
        bad = self.path("bad.gguf", data[:at] + struct.pack("<I", 1 << 20) + data[at + 4:])
        self.fails(bad, "bad.gguf", "eos_token_id", "1048576")
        none = self.path("none.gguf", data[:at] + struct.pack("<I", 4294967295) + data[at + 4:])
        self.assertEqual(forerun("generate", "-m", none, "-p", "a", "--raw", "-n", "2").returncode, 0)


def make_large_model(folder):
    """A model of 50 million weights, all of them zero: a sparse file. A prompt of 6,000 words takes it half a minute."""
    hidden, inner, layers, heads = 1024, 4096, 4, 2
    make_chat_model(folder)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    config.update(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=16,
                  num_key_value_heads=heads, max_position_embeddings=32768)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    keys = hidden // 16 * heads
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for i in range(layers):
        for name, shape in {"self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [keys, hidden],
                            "self_attn.v_proj": [keys, hidden], "self_attn.o_proj": [hidden, hidden],
                            "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
                            "mlp.down_proj": [hidden, inner], "input_layernorm": [hidden],
                            "post_attention_layernorm": [hidden]}.items():
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    start = safetensors(json.dumps(header).encode())
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(start)
        f.truncate(len(start) + end)


def seconds_of(pid):
    """Of processor time."""
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


class Training(cli_support.Command):
    """train, distill and evaluate: what they are given, what they write over, when they stop."""

    DIT = ("--depth", "1", "--hidden", "8", "--heads", "1", "--batch", "4", "--micro-batch", "2", "--f32", "--threads", "1")
    DFLASH = ("--layers", "1", "--block", "4", "--features", "0,1", "--anchors", "4", "--batch", "2", "--steps", "1", "--f32",
              "--precision", "f32", "--threads", "1")

    def images(self):
        data = self.path("images")
        if not os.path.exists(data):
            write_data(data)
        return data

    def train_dit(self, *more, out=None):
        return ("train", "dit", "--data", self.images(), "--out", out or self.path("dit"), *self.DIT, *more)

    def chat_model(self, *folders):
        os.makedirs(self.path(os.path.join(*folders[:-1])) if folders[1:] else self.dir, exist_ok=True)
        model = self.path(os.path.join(*folders))
        make_chat_model(model)
        return model

    def another_model(self, *folders):
        """The same but for one bit of its weights."""
        model = self.chat_model(*folders)
        with open(os.path.join(model, "model.safetensors"), "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last ^ 1]))
        return model

    def distill(self, model, *more, out=None):
        prompts = self.path("prompts.jsonl", b"".join(b'{"prompt": "question %d"}\n' % i for i in range(6)))
        return forerun("distill", "-m", model, "--prompts", prompts, "--out", out or self.path("answers"), "--precision",
                       "f32", "-n", "8", "--batch-size", "2", *more)

    def test_a_batch_beyond_all_bounds_is_misuse(self):
        for flag in ("--batch", "--micro-batch"):
            for value in ("-1", "18446744073709551615", "9223372036854775808"):
                self.assertEqual(forerun(*self.train_dit(), flag, value).returncode, 2, (flag, value))
                args = list(self.train_dit())
                args[args.index(flag) + 1] = value
                r = forerun(*args)
                self.assertEqual(r.returncode, 2, (flag, value, r.stderr))
        self.assertFalse(os.path.exists(self.path("dit")))

    def test_rates_out_of_range_are_misuse_and_no_model_is_left(self):
        for flag, value in (("--lr", "1e30"), ("--lr", "inf"), ("--weight-decay", "1e30"), ("--clip", "inf"),
                            ("--epochs", "1e300"), ("--steps", "9223372036854775807")):
            r = forerun(*self.train_dit(flag, value))
            self.assertEqual(r.returncode, 2, (flag, r.stderr))
        r = forerun(*self.train_dit("--lr", "10", "--weight-decay", "1000", "--clip", "0", "--steps", "9"))
        self.assertEqual(r.returncode, 1, r.stdout + r.stderr)
        self.assertIn("not finite", r.stderr.strip().splitlines()[-1])
        self.assertFalse(os.path.exists(self.path("dit/model.safetensors")))

    def test_a_log_or_a_page_of_something_else_is_never_overwritten(self):
        for name in ("log.jsonl", "curves.html"):
            out = self.path("of " + name)
            os.mkdir(out)
            with open(os.path.join(out, name), "w") as f:
                f.write('{"precious": true}\n')
            self.refused(2, *self.train_dit("--steps", "1", out=out), says=[name, "overwritten", "--out"])
            self.assertEqual(os.listdir(out), [name])
            with open(os.path.join(out, name)) as f:
                self.assertEqual(f.read(), '{"precious": true}\n')

    def test_answers_know_their_model_by_its_weights(self):
        a, b = self.chat_model("a", "model"), self.another_model("b", "model")
        self.assertEqual(self.distill(a).returncode, 0)
        answers = self.path("answers")
        r = self.distill(b)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("target_hash", r.stderr)
        os.remove(os.path.join(answers, "tokens-00000.safetensors"))  # gaps are not filled either
        self.assertEqual(self.distill(b).returncode, 2)
        self.assertEqual(self.distill(a).returncode, 0)
        train = ("train", "dflash", "--data", answers, "--out", self.path("drafter"), *self.DFLASH, "-t")
        self.refused(2, *train, b, says=[answers, "another model", "--target"])
        self.assertEqual(os.path.exists(self.path("drafter")), False)
        r = forerun(*train, a)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn("on trust", r.stderr)

    def test_answers_of_an_earlier_version_are_taken_and_that_is_said(self):
        model, answers = self.chat_model("model"), self.path("answers")
        self.assertEqual(self.distill(model).returncode, 0)
        path = os.path.join(answers, "distill.json")
        with open(path) as f:
            settings = json.load(f)
        del settings["target_hash"], settings["prompts_hash"]
        settings.update(format="forerun distill 1", prompts_digest="1aa48c4cbee4ee2b")
        with open(path, "w") as f:
            json.dump(settings, f)
        r = self.distill(model)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("on trust", r.stderr)
        r = forerun("train", "dflash", "-t", model, "--data", answers, "--out", self.path("drafter"), *self.DFLASH)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("on trust", r.stderr)

    def test_kept_images_without_settings_are_not_adopted(self):
        data, classifier, keep = self.images(), self.path("classifier"), self.path("keep")
        r = forerun("train", "classifier", "--data", data, "--out", classifier, "--steps", "2", "--batch", "10",
                    "--micro-batch", "10", "--threads", "1", "--width", "8", "--features", "6")
        self.assertEqual(r.returncode, 0, r.stderr)
        evaluate = ("evaluate", "--classifier", classifier, "--data", data, "-m", DIT, "--steps", "2", "--drafter", "none",
                    "--threads", "1", "--replicates", "5", "-n", "5", "--keep", keep)
        self.assertEqual(forerun(*evaluate).returncode, 0)
        self.refused(2, *evaluate, "--seed", "7", says=["seed = 0, not 7", "--keep"])
        os.remove(os.path.join(keep, "plain", "settings.json"))
        self.refused(2, *evaluate, "--seed", "7", says=[os.path.join(keep, "plain"), "no settings.json", "--keep"])

    def test_paths_that_are_no_utf8_are_paths(self):
        name = b"m\xff\xfe".decode(errors="surrogateescape")
        model = self.chat_model(name)
        answers = self.path("answers\udcff")
        r = self.distill(model, out=answers)
        self.assertEqual(r.returncode, 0, r.stderr)
        r = self.distill(model, "--json", out=answers)
        self.assertEqual((r.returncode, json.loads(r.stdout)["added"]), (0, 0), r.stderr)
        r = forerun("train", "dflash", "-t", model, "--data", answers, "--out", self.path("d\udcff"), *self.DFLASH)
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_pipes_in_folders_that_are_resumed_are_refused_at_once(self):
        model, answers, out = self.chat_model("model"), self.path("answers"), self.path("dit")
        os.mkdir(answers)
        os.mkfifo(os.path.join(answers, "distill.json"))
        r = self.distill(model)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("is a pipe or device", r.stderr)
        for name in ("log.jsonl", "config.json"):
            shutil.rmtree(out, ignore_errors=True)
            os.mkdir(out)
            os.mkfifo(os.path.join(out, name))
            self.refused(2, *self.train_dit("--steps", "1"), says=[out, "overwritten"])

    def test_self_prompts_that_a_model_cannot_write_are_refused_before_the_answers(self):
        model = self.chat_model("model")  # no token of its vocabulary marks the place
        self.refused(2, "distill", "-m", model, "--self-prompts", "3", "--out", self.path("none"), says=["self-prompts"])
        r = self.distill(model, "--self-prompts", "3", "--json")
        self.assertEqual((r.returncode, json.loads(r.stdout)["added"]), (0, 6), r.stderr)
        self.assertIn("the 6 given prompts alone are answered", r.stderr)

    # --- Ctrl-C ---------------------------------------------------------------------------------------------------

    def stopped(self, args, ready, signals=1):
        """Starts the command and sends SIGINT once `ready` holds, or it has computed for that many seconds; returns its
        exit code, its output, and the seconds it took to end."""
        p = subprocess.Popen([FORERUN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.addCleanup(p.kill)
        deadline = time.monotonic() + 60
        if not callable(ready):
            cpu_seconds = ready
            ready = lambda: seconds_of(p.pid) >= cpu_seconds
        while not ready() and p.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        start = time.monotonic()
        for _ in range(signals):
            p.send_signal(signal.SIGINT)
            time.sleep(0.02)
        out, err = p.communicate(timeout=100)
        return p.returncode, out + err, time.monotonic() - start

    def test_held_out_losses_are_left_at_ctrl_c_and_at_the_time_limit(self):
        data, out = self.path("many"), self.path("out")
        write_data(data)
        for i in range(5):  # 6,000 held-out images: a minute of one thread with this network
            folder = os.path.join(data, "test", f"class{i}")
            one = os.path.join(folder, sorted(os.listdir(folder))[0])
            for j in range(1200):
                os.link(one, os.path.join(folder, f"more{j}.png"))
        train = ("train", "dit", "--data", data, "--out", out, "--depth", "6", "--hidden", "192", "--heads", "4", "--patch",
                 "2", "--batch", "4", "--micro-batch", "2", "--f32", "--threads", "1", "--steps", "1000")
        log = os.path.join(out, "log.jsonl")
        begun = lambda: os.path.exists(log) and os.path.getsize(log) > 0
        code, said, seconds = self.stopped(train, begun)
        self.assertEqual(code, 130, said)
        self.assertLess(seconds, 10.0, said)
        self.assertIn("interrupted after step 0", said)
        start = time.monotonic()
        r = forerun(*train, "--time-limit", "1")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertLess(time.monotonic() - start, 25.0)
        self.assertIn("time limit after step", r.stdout)

    def test_ctrl_c_is_heard_while_a_long_prompt_is_read(self):
        model, text = self.path("large"), "a " * 6000
        make_large_model(model)
        prompts = self.path("long.jsonl", json.dumps({"prompt": text}).encode())
        large = ("-m", model, "--raw", "--precision", "f32", "--threads", "1")
        for args in (("generate", *large, "-p", text, "-n", "1"), ("logits", *large, "-p", text, "--out", self.path("l.npy")),
                     ("certify", *large, "--prompts", prompts)):
            code, said, seconds = self.stopped(args, 2.0)
            self.assertEqual(code, 130, said)
            self.assertLess(seconds, 12.0, said)
        self.assertFalse(os.path.exists(self.path("l.npy")))

    def test_a_second_ctrl_c_loses_no_steps(self):
        out = self.path("dit")
        log = os.path.join(out, "log.jsonl")
        steps = lambda: os.path.exists(log) and os.path.getsize(log) > 5000
        code, said, _ = self.stopped(self.train_dit("--steps", "100000", "--evaluate-steps", "0"), steps, signals=2)
        self.assertEqual(code, 130, said)
        self.assertIn("interrupted after step", said)
        self.assertTrue(os.path.exists(os.path.join(out, "checkpoint.safetensors")))


class Setup(cli_support.Command):
    """What is built and downloaded."""

    def test_no_library_is_taken_from_the_current_folder(self):
        r = subprocess.run([sys.executable, os.path.join(TESTS, "run_path_test.py"), os.path.dirname(os.path.dirname(FORERUN))],
                           capture_output=True, text=True, timeout=120)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_packages_of_python_are_wheels_of_known_hashes(self):
        clients = [f"tests/serve/clients/{name}.txt" for name in ("openai", "lm-eval", "guidellm", "aiperf")]
        for name in ("tools/torch.txt", "tools/torch-cuda.txt", "tools/xgrammar.txt", "python/requirements.txt",
                     "bench/peers/server.txt", *clients):
            with open(os.path.join(os.path.dirname(TESTS), name)) as f:
                wanted = re.sub(r"\\\n|(?m:^ *#.*)", "", f.read())
            for line in filter(str.strip, wanted.splitlines()):
                self.assertRegex(line, r"^[\w.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}")
        with open(os.path.join(TOOLS, "setup.sh")) as f:
            calls = re.findall(r"pip install .*", f.read().replace("\\\n", " "))
        calls = [call for call in calls if "--no-index" not in call]  # those fetch nothing
        self.assertTrue(calls)
        for call in calls:
            for flag in ("--no-deps", "--only-binary :all:", "--require-hashes"):
                self.assertIn(flag, call)
        with open(os.path.join(TESTS, "serve", "clients", "package-lock.json")) as f:
            packages = {name: p for name, p in json.load(f)["packages"].items() if name}
        self.assertTrue(packages)
        for package in packages.values():
            self.assertRegex(package["integrity"], r"^sha512-")
        with open(os.path.join(TOOLS, "setup.sh")) as f:
            for call in re.findall(r"npm (?:ci|install).*", f.read()):
                self.assertRegex(call, r"^npm ci --ignore-scripts")
        with open(os.path.join(TOOLS, "get_xgrammar.sh")) as f:  # the one package of sources, of which nothing is run
            call, = re.findall(r"pip download .*", f.read().replace("\\\n", " "))
        for flag in ("--no-deps", "--require-hashes", "--no-build-isolation"):
            self.assertIn(flag, call)

    def test_the_model_script_without_a_home_says_what_to_set(self):
        r = subprocess.run([os.path.join(TOOLS, "get_model.sh"), "--path"], env={"PATH": os.environ["PATH"]},
                           capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("HOME is not set. Set FORERUN_MODEL_CACHE", r.stderr)

    def test_the_model_script_replaces_nothing_but_what_it_has_put_there(self):
        for folder in ("tools", "cache", "models/smollm2-135m/answers", "models/smollm2-135m/medusa"):
            os.makedirs(self.path(folder))
        model = b"a model"
        with open(os.path.join(TOOLS, "get_model.sh")) as f:
            text = re.sub("sha256=[0-9a-f]{64}", "sha256=" + hashlib.sha256(model).hexdigest(), f.read())
        script = self.path("tools/get_model.sh", text.encode())
        self.path("cache/SmolLM2-135M-Instruct.Q4_1.gguf", model)
        cache = self.path("cache")
        # The file whose contents change, and what the program keeps beside it.
        kinds = {"answers": ("answers", "distill.json", ("answers.order", "answers.order.tmp-12-0")),
                 "drafter": ("medusa", "config.json", ())}

        def run(*args):
            return subprocess.run(["bash", script, *args], env={**os.environ, "FORERUN_MODEL_CACHE": cache}, capture_output=True,
                                  text=True, timeout=60)

        def beside(ending):
            return os.path.join(cache, "SmolLM2-135M-Instruct.Q4_1." + ending)

        def there(ending):
            return {entry.name: pathlib.Path(entry.path).read_bytes() for entry in os.scandir(beside(ending))}

        for ending, (source, settings, kept) in kinds.items():
            with self.subTest(ending):
                for name in ("README.md", settings, "a.safetensors"):
                    self.path(f"models/smollm2-135m/{source}/{name}", b"first")
                self.assertEqual(run("--check").returncode, 1)
                self.assertEqual(run().returncode, 0)
                self.assertEqual((run("--check").returncode, there(ending)["a.safetensors"]), (0, b"first"))
                # What the program keeps beside them does not make them someone's own.
                for name in kept:
                    self.path(os.path.join(beside(ending), name), b"x")
                self.path(f"models/smollm2-135m/{source}/a.safetensors", b"second")
                self.assertEqual(run("--check").returncode, 1)
                self.assertEqual((run().returncode, there(ending)["a.safetensors"]), (0, b"second"))
                self.assertNotIn("answers.order", there(ending))
                for change in ("mine.safetensors", "notes.txt", "README.md", settings):
                    self.path(os.path.join(beside(ending), change), b"mine")
                    before = there(ending)
                    self.path(f"models/smollm2-135m/{source}/a.safetensors", change.encode())
                    self.assertEqual((run("--check").returncode, run().returncode), (0, 0))
                    self.assertEqual(there(ending), before)
                    shutil.rmtree(beside(ending))
                    os.makedirs(beside(ending))  # empty: nobody's
                    self.assertEqual((run().returncode, there(ending)["a.safetensors"]), (0, change.encode()))
        self.assertEqual(sorted(os.listdir(cache)),
                         sorted(os.path.basename(p) for p in (beside("answers"), beside("drafter"), beside("gguf"))))


# Each defect and the tests that cover it, by class and words of their names. Tests of single functions cover a few
# more: Certify.ScoringAgainIsLeftBetweenPasses and Train.AQuestionToStopIsHeardBetweenMicroBatches.
POINTS = (
    ("libraries of the current folder are loaded", "Setup.no_library"),
    ("SIGFPE at --batch -1", "Training.a_batch_beyond"),
    ("a normalizer that doubles its text", "Formats.a_normalizer"),
    ("a position table before the weights", "Formats.a_grid"),
    ("pipes and devices among a model's files", "Formats.pipes Training.pipes Command.json_of"),
    ("inputs overwritten", "Command.an_output_never Training.a_log_or_a_page"),
    ("answers of another model", "Training.answers_know Training.answers_of_an_earlier"),
    ("closed descriptors", "Command.closed_streams"),
    ("Ctrl-C and time limits not heard", "Training.held_out_losses Training.ctrl_c_is_heard Training.a_second_ctrl_c"),
    ("a pass with nothing drafted", "Command.what_drafts_nothing"),
    ("images unpacked before counts are compared", "Formats.counts"),
    ("control characters on the terminal", "Command.control_characters Formats.strings Formats.json_of"),
    ("a path that is not there", "Command.a_path"),
    ("kept images without settings", "Training.kept_images"),
    ("outputs found wanting after the work", "Command.outputs_that Command.an_output_without"),
    ("raw errors of libraries", "Command.folders_in_place Training.paths_that_are_no_utf8"),
    ("end tokens beyond the vocabulary", "Formats.end_tokens"),
    ("numbers that wrap, flags without effect, losses of NaN", "Command.numbers Training.rates"),
    ("self-prompts that cannot be written", "Training.self_prompts"),
    ("terminals, chat, closed pipes, misuse", "Command.terminals Command.chat Command.a_closed_pipe Command.unknown"),
    ("downloads without hash, no HOME", "Setup.packages Setup.the_model_script"),
)


def print_points(results):
    """A line for each point; True if all its tests ran and passed. `results`: name of a test -> whether it passed."""
    good = True
    for number, (what, prefixes) in enumerate(POINTS, 1):
        found = [[t for t in results if t.startswith(p.replace(".", ".test_"))] for p in prefixes.split()]
        ran = sum(found, [])
        ok = all(found) and all(results[t] for t in ran)
        good = good and ok
        print(f"{number:2} {'ok     ' if ok else 'FAILED ' if all(found) else 'NOT RUN'} {what}: {' '.join(ran)}")
    return good


class Result(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ran = []

    def startTest(self, test):
        super().startTest(test)
        self.ran.append(test)


def main():
    run = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=Result)).result
    bad = {getattr(test, "test_case", test).id() for test, _ in run.failures + run.errors}
    good = print_points({t.id().partition(".")[2]: t.id() not in bad for t in run.ran}) or len(sys.argv) > 1
    return 0 if run.wasSuccessful() and good else 1


if __name__ == "__main__":
    sys.exit(main())
