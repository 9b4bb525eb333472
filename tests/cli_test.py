"""The command as scripts and people meet it: JSON fields, exit codes, one clear line for everything that is wrong.

usage: cli_test.py FORERUN   (runs on the tiny models of tests/data/tiny, needs no download)
"""

import fcntl
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from cli_support import FORERUN, GGUF, LLAMA, TAGS, TINY, Command, forerun, make_chat_model, write_harmony

SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")
DIFFUSION = os.path.join(os.path.dirname(TINY), "diffusion_lm")


class Contract(Command):
    def prompts(self):
        lines = [json.dumps({"prompt": f"one two three one two {i}", "category": "ab"[i % 2]}) for i in range(3)]
        return self.path("prompts.jsonl", "\n".join(lines).encode())

    # --- what passes cost, and what precisions change -------------------------------------------------------------

    def test_cost_json_has_the_fixed_fields(self):
        for precision in ("f32", "int8", "file"):
            r = forerun("cost", "-m", GGUF, "--precision", precision, "--prefix", "20", "--repeats", "2", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            self.assertEqual({int(m) for m in j["ms"]}, {1, 2, 4, 8, 16, 32})
            self.assertTrue(all(ms > 0 for ms in j["ms"].values()))
            self.assertGreater(j["bandwidth_limit_ms"], 0)
            self.assertEqual(j["prefix"], 20)
            self.assertNotIn("common_cache", j)  # of one thread

    def test_cost_says_how_often_two_threads_had_a_common_cache(self):
        r = forerun("cost", "-m", GGUF, "--threads", "2", "--rows", "1", "--prefix", "8", "--repeats", "2", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        share = json.loads(r.stdout).get("common_cache", 0.5)  # not measured on every processor
        self.assertGreaterEqual(share, 0)
        self.assertLessEqual(share, 1)

    def test_cost_as_a_table_and_beyond_the_context(self):
        r = forerun("cost", "-m", GGUF, "--rows", "1,3", "--prefix", "8", "--sequences", "2", "--repeats", "1")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("GB/s", r.stdout)
        self.refused(2, "cost", "-m", GGUF, "--prefix", "100000", says=("context",))

    def test_compare_finds_a_model_equal_to_itself_and_int8_close(self):
        for precision, most in (("f32", 1e-6), ("int8", 0.05)):
            r = forerun("compare", "-m", GGUF, "--precision", precision, "--prompts", self.prompts(), "--raw",
                        "--tokens", "60", "-n", "30", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            self.assertEqual(j["tokens"], 60)
            self.assertLess(j["kl"], most)
        self.refused(2, "compare", "-m", GGUF, "--reference", os.path.join(TINY, "llama", "model.gguf"), "--prompts",
                     self.prompts(), "--raw", says=("vocabulary",))

    def test_verbose_explains_the_draft_length_and_fixed_draft_turns_it_off(self):
        r = forerun("generate", "-m", GGUF, "-p", "a b a b a b", "--raw", "-n", "40", "--temp", "0", "--verbose")
        self.assertEqual(r.returncode, 0, r.stderr)
        for word in ("target pass", "rounds by drafts", "last choice"):
            self.assertIn(word, r.stderr)
        r = forerun("generate", "-m", GGUF, "--drafter", "draft-model:" + GGUF, "-p", "a b", "--raw", "-n", "31",
                    "--temp", "0", "--fixed-draft", "--max-draft", "4", "--ignore-end", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        lengths = json.loads(r.stdout)["lengths"]
        self.assertEqual(sum(lengths[:4]) <= 1, True, lengths)  # the last round alone may be shorter

    def test_a_found_draft_leaves_the_sampled_text_as_it_is(self):
        texts = set()
        for drafter in (("--drafter", "none"), ("--drafter", "lookup"), ("--drafter", "lookup", "--fixed-draft")):
            r = forerun("generate", "-m", GGUF, "--precision", "int8", *drafter, "-p", "a b a b a b", "--raw", "-n", "60",
                        "--temp", "1", "--seed", "5", "--ignore-end")
            self.assertEqual(r.returncode, 0, r.stderr)
            texts.add(r.stdout)
        self.assertEqual(len(texts), 1)

    def test_info_says_what_this_processor_does_with_int8(self):
        self.assertIn("precision int8", forerun("info", GGUF).stdout)

    # --- what works ---------------------------------------------------------------------------------------------

    def test_generate_json_has_the_fixed_fields(self):
        for drafter in ("none", "lookup", "draft-model:" + GGUF):
            r = forerun("generate", "-m", GGUF, "--drafter", drafter, "-p", "a b a b", "--raw", "-n", "24", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            for key in ("text tokens tau rounds target_passes seconds tok_s acceptance_by_position rule exact seed").split():
                self.assertIn(key, j)
            self.assertEqual(j["rule"], "shared-noise")
            self.assertIs(j["exact"], True)
            self.assertAlmostEqual(j["tau"], len(j["tokens"]) / j["rounds"], places=6)

    def test_text_goes_to_standard_output_and_statistics_do_not(self):
        r = forerun("generate", "-m", GGUF, "-p", "a b a b", "--raw", "-n", "8", "--ignore-end")
        self.assertEqual(r.returncode, 0)
        self.assertNotIn("tok/s", r.stdout)
        self.assertIn("tau", r.stderr)
        self.assertNotIn("\x1b", r.stdout + r.stderr)  # no colours where there is no terminal

    def test_a_released_model_with_its_own_mask_rows_writes_the_text_of_plain_decoding(self):
        model = os.path.join(os.path.dirname(TINY), "nemotron")
        for precision in ("f32", "int8"):
            run = ("generate", "-m", model, "--precision", precision, "-p", "one two three", "--raw", "-n", "40", "--temp", "0",
                   "--ignore-end", "--json")
            plain = json.loads(forerun(*run, "--drafter", "none").stdout)
            for drafter in ("tidar:self", f"tidar:{model}/linear_spec_lora:block=4+lookup"):
                r = forerun(*run, "--drafter", drafter, "--fixed-draft", "--max-draft", "3")
                self.assertEqual(r.returncode, 0, r.stderr)
                drafted = json.loads(r.stdout)
                self.assertEqual(drafted["tokens"], plain["tokens"])
                self.assertTrue(drafted["exact"])
                self.assertGreater(drafted["drafted"], 0)
        self.refused(2, "generate", "-m", model, "--drafter", "tidar:self:block=0", "-p", "a", says=("from 2 to 256",))
        self.refused(2, "generate", "-m", LLAMA, "--drafter", f"tidar:{model}/linear_spec_lora", "-p", "a",
                     says=("Nemotron-Labs-Diffusion",))

    def test_same_seed_same_tokens(self):
        def run(seed):
            r = forerun("generate", "-m", GGUF, "-p", "a b", "--raw", "--temp", "1", "--seed", seed, "--json", "-n", "20")
            return json.loads(r.stdout)["tokens"]
        self.assertEqual(run("5"), run("5"))
        self.assertNotEqual(run("5"), run("6"))

    def test_bias_and_penalties_are_part_of_the_law(self):
        def run(*flags):
            r = forerun("generate", "-m", GGUF, "-p", "a b a b a b", "--raw", "-n", "40", "--temp", "1", "--seed", "5",
                        "--ignore-end", "--json", "--fixed-draft", *flags)
            self.assertEqual(r.returncode, 0, r.stderr)
            return json.loads(r.stdout)["tokens"]
        changes = ["--presence-penalty", "1", "--frequency-penalty", "0.5", "--repetition-penalty", "1.2",
                   "--logit-bias", "20=2.5", "--logit-bias", "21=-100"]
        tokens = run("--drafter", "lookup", *changes)
        self.assertEqual(tokens, run("--drafter", "none", *changes))
        self.assertNotEqual(tokens, run("--drafter", "none"))
        self.assertNotIn(21, tokens)
        self.assertEqual(run("--logit-bias", "20=1e4"), [20] * 40)
        for wrong in ("20", "20:1", "x=1", "20=y", "1000000=1"):
            r = forerun("generate", "-m", GGUF, "-p", "a", "--raw", "--logit-bias", wrong)
            self.assertEqual(r.returncode, 2, wrong)
            self.assertIn("bias", r.stderr)

    def test_answers_are_held_to_an_expression_or_to_choices(self):
        def run(*flags):
            r = forerun("generate", "-m", GGUF, "-p", "a b a b", "--raw", "--temp", "1.2", *flags)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("ended by end-token", r.stderr)
            return r.stdout.removesuffix("\n")
        for expression in (r"\d{3}-\d{4}", "#[0-9a-f]{6}", "(yes|no)"):
            text = run("--regex", expression, "--drafter", "none")
            self.assertRegex(text, f"\\A{expression}\\Z")
            self.assertEqual(run("--regex", expression, "--fixed-draft"), text)
        said = {run("--choice", "yes", "--choice", "no, never", "--seed", str(seed)) for seed in range(12)}
        self.assertEqual(said, {"yes", "no, never"})
        r = forerun("certify", "-m", GGUF, "--prompts", self.prompts(), "--raw", "--tokens", "60", "--regex", "[ab]{30}", "--json")
        self.assertEqual((r.returncode, json.loads(r.stdout)["passed"]), (0, True), r.stderr)
        call = ("generate", "-m", GGUF, "-p", "a", "--raw")
        self.refused(2, *call, "--regex", "(?=a)b", says=["lookahead"])
        self.refused(2, *call, "--regex", "a", "--choice", "b", says=["--regex and --choice"])
        self.refused(2, *call, "--json-schema", self.path("s.json", b"{}"), "--regex", "a", says=["--json-schema and --regex"])
        self.refused(2, *call, "--choice", "a", "--ignore-end", says=["--choice and --ignore-end"])

    def test_of_harmony_the_final_message_has_the_form(self):
        model = os.path.join(self.dir, "chat")
        make_chat_model(model)
        write_harmony(model)
        schema = self.path("s.json", b'{"const": "<|end|>"}')
        for flags, text in ((("--choice", "yes"), "yes"), (("--regex", "[<]\\|end\\|>"), "<|end|>"), (("--json-schema", schema), '"<|end|>"')):
            seen = set()
            for seed in range(4):
                bias = [x for t, b in (("channel", 30 if seed % 2 else -30), ("message", 9), ("end", 9)) for x in ("--logit-bias", f"{TAGS[f'<|{t}|>']}={b}")]
                call = ("generate", "-m", model, "-p", "a b", "--temp", "1.2", "--seed", str(seed), "-n", "150", *flags, *bias)
                r, j = forerun(*call), forerun(*call, "--json")
                self.assertEqual((r.returncode, j.returncode), (0, 0), r.stderr)
                answer = json.loads(j.stdout)
                self.assertEqual(r.stdout, answer["text"] + "\n")
                if answer["finish"] == "end-token":
                    self.assertEqual(answer["text"], text)
                    seen.add(TAGS["<|channel|>"] in answer["tokens"])
            self.assertEqual(seen, {True, False})
        r = forerun("generate", "-m", model, "-p", "a b", "--raw", "--choice", "yes", "--json")
        self.assertEqual(json.loads(r.stdout)["text"], "yes")

    def test_inexact_rules_are_labelled(self):
        r = forerun("generate", "-m", GGUF, "-p", "a b", "--raw", "--temp", "1", "--rule", "typical", "--json")
        self.assertIs(json.loads(r.stdout)["exact"], False)
        r = forerun("generate", "-m", GGUF, "-p", "a b", "--raw", "--temp", "1", "--rule", "typical")
        self.assertIn("INEXACT", r.stderr)

    def test_says_the_precision_that_it_computes_in(self):
        r = forerun("generate", "-m", GGUF, "-p", "a b", "--raw", "-n", "4", "--precision", "bf16")
        self.assertIn(", bf16, drafter ", r.stderr)
        r = forerun("bench", "-m", GGUF, "--drafters", "lookup", "--prompts", self.prompts(), "-n", "4", "--raw", "--precision", "bf16")
        self.assertIn(", bf16, rule ", r.stdout)
        for path, name in ((os.path.join(SHIPPED, "smollm2-135m", "dflash"), None), (os.path.join(SHIPPED, "fashion-mnist", "dit"), "bf16|f32")):
            facts = json.loads(forerun("info", path, "--json").stdout)["facts"]
            if name is None:
                self.assertNotIn("precision auto on it", facts)  # its target's
            else:
                self.assertRegex(facts["precision auto on it"], f"^({name}) ")

    def test_bench_json_has_the_fixed_fields_and_finds_greedy_texts_identical(self):
        r = forerun("bench", "-m", GGUF, "--drafters", f"none,lookup,draft-model:{LLAMA}", "--prompts", self.prompts(),
                    "-n", "16", "--temp", "0", "--raw", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = json.loads(r.stdout)
        self.assertEqual([row["drafter"] for row in rows], ["none", "lookup", "draft-model:" + LLAMA])
        for row in rows:
            for key in ("tau tok_s speedup_vs_none by_category ms_per_target_pass ms_per_draft identical_to_none").split():
                self.assertIn(key, row)
            self.assertIn(row["precision"], ("int8", "f32"))
            self.assertIs(row["identical_up_to_ties"], True)
            self.assertEqual(set(row["by_category"]), {"a", "b"})

    def test_bench_report_is_one_page_that_needs_nothing_else(self):
        hostile = "</script><script>alert('x')</script>&\"\u2028\u0001"
        lines = [json.dumps({"prompt": "one two three one two", "category": c}) for c in ("a", hostile)]
        prompts = self.path("prompts.jsonl", "\n".join(lines).encode())
        page = self.path("bench.html", b"an older page")
        r = forerun("bench", "-m", GGUF, "--prompts", prompts, "-n", "8", "--temp", "0", "--raw", "--json",
                    "--report", page)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(len(json.loads(r.stdout)), 3)  # what --json prints stays as it is
        self.assertIn(page, r.stderr)
        data = self.page_data(page)
        self.assertEqual(data["verdict"]["head"], "Identical:")
        self.assertTrue(data["model"].endswith("model.gguf"))
        self.assertIn("--max-tokens 8", data["command"])
        self.assertEqual([set(d["by_category"]) for d in data["drafters"]], [{"a", hostile}] * 3)
        self.assertIn("1", data["cost"]["ms"])
        self.assertEqual(sorted(os.listdir(self.dir)), ["bench.html", "prompts.jsonl"])  # nothing temporary stays

    def test_a_report_that_cannot_be_written_is_found_out_before_the_run(self):
        for page in ("/no/such/folder/bench.html", self.dir, "/dev/null"):
            started = time.monotonic()
            self.refused(1, "bench", "-m", GGUF, "--prompts", self.prompts(), "--raw", "-n", "200",
                         "--report", page, says=[page])
            self.assertLess(time.monotonic() - started, 30)
        # Nor does a run that fails later leave anything behind.
        page = self.path("bench.html")
        self.refused(2, "bench", "-m", self.path("no.gguf"), "--prompts", self.prompts(), "--report", page,
                     says=["no.gguf"])
        self.assertEqual(os.listdir(self.dir), ["prompts.jsonl"])

    def test_an_interrupted_bench_still_reports(self):
        page = self.path("bench.html")
        lines = [json.dumps({"prompt": f"one two three {i}"}) for i in range(2000)]
        p = subprocess.Popen([FORERUN, "bench", "-m", GGUF, "--prompts", self.path("many.jsonl", "\n".join(lines).encode()),
                              "--raw", "-n", "16", "--temp", "0", "--report", page], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=60)
        if os.path.exists(page):  # else the signal came before the first prompt was done
            self.assertIn(p.returncode, (0, 130), err)
            data = self.page_data(page)
            self.assertEqual(data["prompts"] < data["prompts_total"], p.returncode == 130)

    def test_certify_json_has_the_fixed_fields_and_its_verdict_is_the_exit_code(self):
        common = ("certify", "-m", GGUF, "--drafter", "draft-model:" + GGUF, "--prompts", self.prompts(),
                  "--tokens", "600", "--raw", "--ignore-end", "--json")
        r = forerun(*common, "--rule", "maximal")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        for key in "z ks_p tokens exact verdict".split():
            self.assertIn(key, j)
        self.assertEqual(j["tokens"], 600)
        r = forerun(*common, "--rule", "ratio-on-search")
        self.assertEqual(r.returncode, 1)
        self.assertEqual(json.loads(r.stdout)["verdict"], "biased")

    def test_logits_are_a_numpy_file(self):
        out = self.path("logits.npy")
        r = forerun("logits", "-m", GGUF, "-p", "a b c", "--raw", "--out", out)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(out, "rb") as f:
            head = f.read(128)
        self.assertEqual(head[:6], b"\x93NUMPY")
        self.assertIn(b"'descr': '<f4'", head)
        self.assertIn(b", 176)", head)
        self.assertEqual(os.listdir(self.dir), ["logits.npy"])  # nothing temporary stays

    def test_info_reads_every_format(self):
        for path in (GGUF, LLAMA, os.path.join(LLAMA, "model.safetensors")):
            r = forerun("info", path, "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertGreater(len(json.loads(r.stdout)["tensors"]), 20)

    def test_int4_is_for_files_that_store_four_bits_and_a_damaged_one_is_told_as_such(self):
        self.refused(2, "generate", "-m", GGUF, "--precision", "int4", "-p", "a", "--raw", says=["4 bits", "Q4_K", "int8"])
        with open(GGUF, "rb") as f:
            short = self.path("short.gguf", f.read()[:-100])
        self.refused(1, "generate", "-m", short, "--precision", "int4", "-p", "a", "--raw", says=["missing"])

    def test_a_model_is_found_by_its_name_in_the_cache(self):
        repository = os.path.join(self.dir, "hub", "models--some--model")
        snapshot = os.path.join(repository, "snapshots", "abc")
        os.makedirs(snapshot)
        os.mkdir(os.path.join(repository, "refs"))
        with open(os.path.join(repository, "refs", "main"), "w") as f:
            f.write("abc")
        env = dict(os.environ, HF_HOME=self.dir)
        env.pop("HF_HUB_CACHE", None)

        def run(*args):
            return forerun(*args, env=env, cwd=self.dir)

        shutil.copy(GGUF, os.path.join(snapshot, "tiny.gguf"))
        for name in ("some/model", "some/model/tiny.gguf", repository):
            r = run("generate", "-m", name, "-p", "hello", "--raw", "-n", "4", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(run("info", name).returncode, 0)
        shutil.copy(GGUF, os.path.join(snapshot, "other.gguf"))
        r = run("generate", "-m", "some/model", "-p", "hello", "--raw")
        self.assertEqual((r.returncode, len(r.stderr.strip().splitlines())), (2, 1), r.stderr)
        self.assertIn("2 GGUF models: other.gguf, tiny.gguf; name one: some/model/other.gguf", r.stderr)
        r = run("generate", "-m", "some/other", "-p", "hello", "--raw")
        self.assertEqual((r.returncode, len(r.stderr.strip().splitlines())), (2, 1), r.stderr)
        self.assertIn("hf download some/other", r.stderr)
        os.makedirs(os.path.join(self.dir, "some"))
        shutil.copytree(LLAMA, os.path.join(self.dir, "some", "model"))  # what lies there goes first
        self.assertEqual(run("generate", "-m", "some/model", "-p", "hello", "--raw", "-n", "4").returncode, 0)

    def test_what_a_publisher_recommends_is_taken_where_it_is_asked_for(self):
        folder = self.path("chat")
        make_chat_model(folder)
        config = os.path.join(folder, "generation_config.json")

        def write(**fields):
            with open(config, "w") as f:
                json.dump(fields, f)

        def run(*flags):
            r = forerun("generate", "-m", folder, "-p", "a b a b", "-n", "30", "--seed", "3", "--ignore-end", "--json", *flags)
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            return j["tokens"], j["temperature"]
        write(do_sample=True, temperature=1.3, top_k=5, repetition_penalty=1.2)
        asked = ("--generation-config", "auto")
        self.assertEqual(run(), run("--temp", "0"))
        self.assertEqual(run(*asked), run("--temp", "1.3", "--top-k", "5", "--repetition-penalty", "1.2"))
        self.assertEqual(run(*asked)[1], 1.3)
        self.assertEqual(run(*asked, "--temperature", "0.4", "--top-k", "0"), run("--temp", "0.4", "--repetition-penalty", "1.2"))
        self.assertNotEqual(run(*asked), run("--temp", "1.3"))

        def chat(*flags):
            r = forerun("chat", "-m", folder, "-n", "30", "--seed", "3", "--ignore-end", *flags, input="a b\n", stdin=None)
            self.assertEqual(r.returncode, 0, r.stderr)
            return r.stdout, r.stderr
        text, said = chat()
        self.assertEqual(text, chat("--temp", "1.3", "--top-k", "5", "--repeat-penalty", "1.2", "--generation-config", "none")[0])
        self.assertIn("temperature 1.3, top-k 5, repetition penalty 1.2, as generation_config.json recommends", said)
        self.assertIn("top-k 5, repetition penalty 1.2, as", chat("--temp", "1")[1])
        self.assertNotIn("recommends", chat("--temp", "1", "--top-k", "2", "--repetition-penalty", "1")[1])
        self.assertEqual(chat("--generation-config", "vllm")[0], chat("--temp", "0.7", "--generation-config", "none")[0])
        facts = json.loads(forerun("info", folder, "--json").stdout)["facts"]
        self.assertEqual(facts["recommended sampling"], "temperature 1.3, top-k 5, repetition penalty 1.2 (generation_config.json)")
        write(do_sample=False, temperature=1.3)
        self.assertEqual(chat()[0], chat("--temp", "0")[0])
        write(temperature="warm")
        self.assertEqual(run(), run("--temp", "0"))
        self.refused(1, "chat", "-m", folder, says=["generation_config.json: temperature holds a string", "--generation-config none"])
        self.assertIn("temperature holds", json.loads(forerun("info", folder, "--json").stdout)["facts"]["recommended sampling"])

    def test_every_command_explains_itself(self):
        for command in ("generate", "chat", "bench", "certify", "info", "logits", "demo"):
            r = forerun(command, "--help")
            self.assertEqual(r.returncode, 0)
            self.assertIn("Example", r.stdout)

    def test_interrupt_ends_cleanly_with_the_statistics_so_far(self):
        p = subprocess.Popen([FORERUN, "generate", "-m", GGUF, "-p", "a b", "--raw", "-n", "200", "--drafter", "none",
                              "--ignore-end", "--json"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        time.sleep(0.6)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        if p.returncode == 0:  # the machine was faster than the signal
            self.assertEqual(json.loads(out)["finish"], "length")
        elif p.returncode == 130 and out:  # else the model was being read
            self.assertEqual(json.loads(out)["finish"], "interrupted", err)
        elif p.returncode != 130:  # before the handler was there, or past it
            self.assertEqual(p.returncode, -signal.SIGINT, err)

    def test_chat_answers_from_a_pipe(self):
        r = forerun("chat", "-m", GGUF, input="hello\n/exit\n", stdin=None)
        self.assertIn("chat template", r.stderr)  # the tiny model has none, and the user is told

    def terminal(self, *args):
        """Starts the command at a terminal. -> a function that sends bytes and waits for others, and the process"""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = subprocess.Popen([FORERUN, *args], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                   env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C"})
        self.addCleanup(process.kill)
        os.close(theirs)

        def exchange(sent, until):
            os.write(ours, sent)
            seen, end = b"", time.monotonic() + 100
            while not re.search(until, seen, re.S):
                self.assertTrue(select.select([ours], [], [], max(0, end - time.monotonic()))[0], seen)
                seen += os.read(ours, 65536)
            return seen
        return exchange, process

    def test_chat_edits_lines_and_takes_a_paste_for_one_message(self):
        if "libedit" not in subprocess.run(["ldd", FORERUN], capture_output=True, text=True).stdout:
            self.skipTest("built without libedit")
        model = self.path("chat")
        make_chat_model(model)
        chat, process = self.terminal("chat", "-m", model, "-n", "2")
        answered = b"2 tokens / .*> "
        chat(b"", b"> ")
        chat(b"/exit\n\nmore\n", answered)
        chat(b"/exit\\\n", b"\n  ")  # goes on behind the backslash
        chat(b"more\n", answered)
        chat(b"half a line", b"half a line")
        chat(b"\x03", b"\\^C.*> ")  # discards it
        chat(b"a\tb", b"9Gb|a +b")  # a tab stays one: the next column is the ninth
        chat(b"\x15\x1b[A", b"/exit")  # the message before
        chat("\x15/xit\u00e4\x7f\x1b[D\x1b[D\x1b[De\n".encode(), b"in all")
        self.assertEqual(process.wait(60), 0)

    # --- what is refused ----------------------------------------------------------------------------------------

    def test_misuse_is_exit_code_2(self):
        self.assertEqual(forerun().returncode, 2)
        self.assertEqual(forerun("generate").returncode, 2)
        self.assertEqual(forerun("generate", "-m", GGUF, "--no-such-flag").returncode, 2)
        self.assertEqual(forerun("generate", "-m", GGUF, "-p", "x", "--temp", "-1").returncode, 2)
        self.assertEqual(forerun("generate", "-m", GGUF, "-p", "x", "--rule", "magic").returncode, 2)
        self.refused(2, "generate", "-m", GGUF, "--raw", says=["prompt"])
        self.refused(2, "serve", "-m", GGUF, "--no-such-level", "info", says=["forerun serve: not expected: --no-such-level info"])
        self.refused(2, "train", "dflash", "--target", "a", "--data", "b", "--out", "c", "--no-such-level", "medusa",
                     says=["forerun train dflash: not expected: --no-such-level medusa"])
        self.refused(2, "generate", "-m", GGUF, "-p", "", "--raw", says=["prompt"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", says=["chat template", "--raw"])
        self.refused(2, "generate", "-m", self.path("none.gguf"), "-p", "x", "--raw", says=["none.gguf"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--raw", "--drafter", "magic", says=["magic", "lookup"])
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--raw", "--rule", "ratio-on-search", "--temp", "1",
                     says=["ratio-on-search", "draft-model"])
        self.refused(2, "bench", "-m", GGUF, "--prompts", self.path("no.jsonl"), says=["no.jsonl"])
        bad = self.path("bad.jsonl", b'{"prompt": "x"}\n{"text": 1}\n')
        self.refused(2, "bench", "-m", GGUF, "--prompts", bad, "--raw", says=["bad.jsonl:2", "prompt"])

    def test_a_prompt_beyond_the_context_is_refused(self):
        self.refused(2, "generate", "-m", GGUF, "-p", "a b " * 400, "--raw", says=["context", "256"])

    def test_a_drafter_of_another_vocabulary_is_refused_saying_what_differs(self):
        other = os.path.join(TINY, "llama", "model.gguf")
        self.refused(2, "generate", "-m", GGUF, "-p", "x", "--raw", "--drafter", "draft-model:" + other,
                     says=["vocabular", "160", "176"])

    def test_diffusion_language_models_draft_whatever_their_form(self):
        target = os.path.join(TINY, "qwen2", "model.gguf")
        call = ("generate", "-m", target, "-p", "hello you", "--raw", "-n", "24", "--temp", "0", "--ignore-end")
        plain = forerun(*call, "--drafter", "none")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for name in ("dream", "dream/model.gguf", "llada", "llada/model.gguf", "llada_moe", "llada_moe/model.gguf"):
            for precision in ("auto", "f32", "bf16", "file"):
                drafter = "diffuspec:" + os.path.join(DIFFUSION, name) + ":most=4"
                r = forerun(*call, "--drafter", drafter, "--draft-precision", precision, "--fixed-draft")
                self.assertEqual((r.returncode, r.stdout), (0, plain.stdout), f"{name} {precision}: {r.stderr}")

    def test_a_diffusion_language_model_takes_no_flag_that_it_would_ignore(self):
        dream = os.path.join(DIFFUSION, "dream")
        for flag, value in (("--json-schema", "none"), ("--regex", "a"), ("--choice", "a"), ("--logit-bias", "1=2"), ("--repetition-penalty", "2"), ("--cfg", "2"),
                            ("--count", "2"), ("--class", "1"), ("--eta", "1"), ("--prefill", "1"), ("--stop", "x")):
            self.refused(2, "generate", "-m", dream, "-p", "x", "--raw", flag, value, says=[flag, "leave it out"])

    def test_diffusion_language_models_that_cannot_draft_are_refused_in_one_line(self):
        target = os.path.join(TINY, "qwen2", "model.gguf")
        dream = os.path.join(DIFFUSION, "dream")

        def refused(code, drafter, says, model=target):
            self.refused(code, "generate", "-m", model, "-p", "x", "--raw", "--drafter", "diffuspec:" + drafter, says=says)

        refused(2, dream, ["cannot draft", "vocabular", "160", "176"], GGUF)
        refused(2, os.path.join(dream, "model.gguf"), ["cannot draft", "vocabular", "160", "176"], GGUF)
        refused(2, self.path("nothing"), ["nothing", "Dream or LLaDA"])
        refused(1, target, ["qwen2", "dream, llada and llada-moe"])
        with open(os.path.join(dream, "model.gguf"), "rb") as f:
            good = f.read()
        maskless = good.replace(b"tokenizer.ggml.mask_token_id", b"tokenizer.ggml.musk_token_id")
        refused(1, self.path("maskless.gguf", maskless), ["maskless.gguf", "mask_token_id is missing"])
        refused(1, self.path("half.gguf", good[: len(good) // 2]), ["half.gguf"])
        law = self.path("law.arpa", b"\\data\\\nngram 1=2\n\n\\1-grams:\n-1\t4\n\n\\end\\\n")
        refused(1, f"{dream}:ngram={law}", ["law.arpa", "fewer 1-grams"])

    def test_broken_files_fail_with_one_line(self):
        with open(GGUF, "rb") as f:
            good = f.read()
        cases = {
            "empty.gguf": b"",
            "text.gguf": b"hello, I am no model\n" * 10,
            "truncated.gguf": good[: len(good) // 2],
            "header.gguf": good[:40],
            "version.gguf": good[:4] + struct.pack("<I", 99) + good[8:],
            "counts.gguf": good[:8] + struct.pack("<QQ", 2**62, 2**62) + good[24:],
            "architecture.gguf": good.replace(b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
                                              b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lxama"),
        }
        for name, data in cases.items():
            self.refused(1, "generate", "-m", self.path(name, data), "-p", "x", "--raw", says=[name])

    def test_a_broken_folder_fails_with_one_line(self):
        def folder(name, change):
            path = os.path.join(self.dir, name)
            shutil.copytree(LLAMA, path)
            change(path)
            return path

        def rewrite(file, edit):
            def change(path):
                with open(os.path.join(path, file), "rb") as f:
                    data = f.read()
                with open(os.path.join(path, file), "wb") as f:
                    f.write(edit(data))
            return change

        cases = [
            ("noconfig", lambda p: os.remove(os.path.join(p, "config.json")), "config.json"),
            ("notokenizer", lambda p: os.remove(os.path.join(p, "tokenizer.json")), "tokenizer.json"),
            ("noweights", lambda p: os.remove(os.path.join(p, "model.safetensors")), "safetensors"),
            ("cutweights", rewrite("model.safetensors", lambda d: d[: len(d) // 2]), "model.safetensors"),
            ("cuttokenizer", rewrite("tokenizer.json", lambda d: d[: len(d) // 2]), "tokenizer.json"),
            ("deepconfig", rewrite("config.json", lambda d: b"[" * 100000), "config.json"),
            ("othermodel", rewrite("config.json", lambda d: d.replace(b'"llama"', b'"mamba"')), "mamba"),
        ]
        for name, change, word in cases:
            self.refused(1, "generate", "-m", folder(name, change), "-p", "x", "--raw", says=[name, word])

    def test_flipped_bits_never_crash(self):
        rng = random.Random(7)
        with open(GGUF, "rb") as f:
            good = f.read()
        for i in range(40):
            data = bytearray(good)
            for _ in range(rng.choice((1, 3, 20))):
                # half of them in the first kilobytes, where counts and lengths are
                at = rng.randrange(4096 if rng.random() < 0.5 else len(data))
                data[at] ^= 1 << rng.randrange(8)
            r = forerun("generate", "-m", self.path("flipped.gguf", bytes(data)), "-p", "a b", "--raw", "-n", "2")
            self.assertIn(r.returncode, (0, 1, 2), f"flip {i}: {r.returncode} {r.stderr}")

    def test_nan_weights_fail_naming_the_logits(self):
        def nan(d):
            (n,) = struct.unpack("<Q", d[:8])
            header = json.loads(d[8: 8 + n])
            begin, end = header["model.norm.weight"]["data_offsets"]
            wide = header["model.norm.weight"]["dtype"] == "F32"
            one = struct.pack("<f", float("nan")) if wide else b"\xc0\x7f"
            return d[: 8 + n + begin] + one * ((end - begin) // len(one)) + d[8 + n + end:]

        path = os.path.join(self.dir, "nan")
        shutil.copytree(LLAMA, path)
        with open(os.path.join(path, "model.safetensors"), "rb") as f:
            data = nan(f.read())
        with open(os.path.join(path, "model.safetensors"), "wb") as f:
            f.write(data)
        for temp in ("0", "1"):
            self.refused(1, "generate", "-m", path, "-p", "a b", "--raw", "--temp", temp, says=["NaN", "logits"])

    def test_a_full_disk_is_reported(self):
        with open("/dev/full", "w") as full:
            r = subprocess.run([FORERUN, "generate", "-m", GGUF, "-p", "a", "--raw", "-n", "4", "--json"], stdout=full,
                               stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(r.returncode, 1)
        self.assertIn("No space left", r.stderr)
        self.refused(1, "logits", "-m", GGUF, "-p", "a", "--raw", "--out", "/no/such/folder/x.npy", says=["/no/such"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
