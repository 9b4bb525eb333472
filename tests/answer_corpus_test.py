#!/usr/bin/env python3
"""tools/answer_corpus.py: what it keeps of answers, what it adds to a corpus, what it refuses."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True
import answer_corpus  # noqa: E402
from token_shards import read_shard, shard  # noqa: E402

MANIFEST = {"format": "forerun distill 2", "prompts": 0, "temperature": 0.0, "target": "a.gguf", "target_hash": "1", "vocabulary_hash": "v"}


class AnswerCorpus(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)
        self.folder = Path(self.root.name)
        self.out = self.folder / "out"

    def answers(self, name, documents, ids=None, **manifest):
        """A folder as forerun distill makes it."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "distill.json").write_text(json.dumps(MANIFEST | manifest))
        (folder / "tokens-00000.safetensors").write_bytes(shard(documents, ids))
        return str(folder)

    def run_tool(self, *arguments):
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["answer_corpus.py", *map(str, arguments), str(self.out)]), contextlib.redirect_stdout(printed):
            answer_corpus.main()
        return printed.getvalue()

    def refused(self, *arguments):
        before = self.files()
        with self.assertRaises(SystemExit) as refusal:
            self.run_tool(*arguments)
        self.assertEqual(self.files(), before)
        return str(refusal.exception)

    def files(self):
        return {path.name: path.read_bytes() for path in self.out.glob("*")} if self.out.exists() else {}

    def corpus(self):
        """(id, context, answer) of all files, in order."""
        return [(i, list(prompt), list(answer)) for path in sorted(self.out.glob("tokens-*")) for i, prompt, answer in read_shard(path)]

    def test_keeps_each_answer_once_with_the_end_of_its_prompt(self):
        one = self.answers("one", [([1, 2, 3], [7, 8]), ([9, 2, 3], [7, 8]), ([4], [7, 8]), ([5], [])])
        two = self.answers("two", [([8, 8, 4], [6]), ([0, 2, 3], [7, 8])])
        self.run_tool("--context", 2, one, two)
        self.assertEqual(self.corpus(), [(0, [2, 3], [7, 8]), (1, [4], [7, 8]), (2, [8, 4], [6])])
        same = self.files()
        self.assertEqual(len(same), 2)
        for path in self.out.glob("*"):
            path.unlink()
        self.run_tool("--context", 2, one, two)
        self.assertEqual(self.files(), same)

    def test_chooses_sources_of_prompts(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": "x", "source": s}) + "\n" for s in ("math", "code", "math")))
        answers = self.answers("a", [([1], [10]), ([2], [11]), ([3], [12]), ([4], [13])], [0, 1, 2, 3], prompts=3)
        self.run_tool("--prompts", prompts, "--sources", "math", answers)
        # The prompts behind those of the file are the model's own.
        self.assertEqual([answer for _, _, answer in self.corpus()], [[10], [12], [13]])
        self.assertIn("--prompts holds 3", self.refused("--prompts", prompts, self.answers("b", [([1], [10])], prompts=4)))

    def test_adds_what_a_corpus_lacks_in_further_files(self):
        self.run_tool(self.answers("one", [([1], [7, 8]), ([2], [9])]))
        first = self.files()
        printed = self.run_tool(self.answers("two", [([2], [9]), ([3], [5])]))
        self.assertIn("1 answers beside the 2 of before", printed)
        self.assertEqual(self.corpus(), [(0, [1], [7, 8]), (1, [2], [9]), (2, [3], [5])])
        for name, data in first.items():
            if name.startswith("tokens-"):
                self.assertEqual(self.files()[name], data)
        self.assertEqual(len(self.files()), 3)
        self.assertIn("no answer is left", self.refused(str(self.folder / "two")))

    def test_begins_a_file_before_one_would_be_too_large(self):
        answers = self.answers("a", [([1], [i, i]) for i in range(7)])
        with mock.patch.object(answer_corpus, "MOST_TOKENS", 9):
            self.run_tool(answers)
        sizes = [sum(len(p) + len(a) for _, p, a in read_shard(path)) for path in sorted(self.out.glob("tokens-*"))]
        self.assertEqual(sizes, [9, 9, 3])
        self.assertEqual([i for i, _, _ in self.corpus()], list(range(7)))

    def test_says_of_its_answers_what_holds_for_all(self):
        self.run_tool(self.answers("a", [([1], [2])], target="b.gguf"), self.answers("b", [([1], [3])], temperature=0.7))
        manifest = json.loads((self.out / "distill.json").read_text())
        self.assertEqual(manifest["target"], "b.gguf")  # one file under two names
        self.assertNotIn("temperature", manifest)
        self.assertNotIn("prompts", manifest)

    def test_refuses_folders_that_are_not_its_own(self):
        good = self.answers("good", [([1], [2])])
        self.assertIn("different vocabularies", self.refused(good, self.answers("other", [([1], [3])], vocabulary_hash="w")))
        self.out = Path(self.answers("distilled", [([1], [4])]))
        self.assertIn("answers of forerun distill", self.refused(good))
        (self.out / "distill.json").unlink()
        self.assertIn("without a distill.json", self.refused(good))


if __name__ == "__main__":
    unittest.main()
