#!/usr/bin/env python3
"""Measures llama.cpp on one GGUF file, or makes a file of another type from it; compare.py calls it.

One process is one measurement, so that no contestant's threads spin while another is timed. It runs in the environment
that setup.sh makes:
  .venv/bin/python llama_cpp_worker.py cost MODEL.gguf --prefix 200 --rows 1,16     times passes, prints JSON
  .venv/bin/python llama_cpp_worker.py generate MODEL.gguf --prompts FILE -n 128    answers prompts, prints JSON
  .venv/bin/python llama_cpp_worker.py quantize MODEL.gguf OUT.gguf --type Q4_0     writes OUT.gguf
  .venv/bin/python llama_cpp_worker.py type MODEL.gguf                              prints its type, such as Q4_1
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import time

import llama_cpp as llama
import numpy as np

N_BATCH = 512
WARM_UPS = 2
FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}


def load_model(path):
    model = llama.llama_model_load_from_file(os.fsencode(path), llama.llama_model_default_params())
    return model or sys.exit(f"llama.cpp cannot load {path}; without --quiet it says why")


class Engine:
    """A model and a context with one sequence."""

    def __init__(self, path, threads, n_ctx, flash_attn):
        self.model = load_model(path)
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, N_BATCH, N_BATCH
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = FLASH_ATTN[flash_attn]
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp cannot make a context of {n_ctx} tokens for {path}; without --quiet it says why")
        self.memory = llama.llama_get_memory(self.context)
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))

    def tokens(self, n):
        """Ids spread over the vocabulary: those of `forerun cost`."""
        return [(i * 7919 + 101) % self.vocab for i in range(n)]

    def batch(self, tokens, position, logits):
        """tokens placed from `position` on; logits: "all" wants those of every token, "last" of the last alone."""
        b = llama.llama_batch_init(len(tokens), 0, 1)
        b.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = token, position + i, 1, 0
            b.logits[i] = logits == "all" or i == len(tokens) - 1
        return b

    def decode(self, batch):
        """Seconds of one pass."""
        start = time.perf_counter()
        status = llama.llama_decode(self.context, batch)
        llama.llama_synchronize(self.context)
        seconds = time.perf_counter() - start
        if status:
            sys.exit(f"llama_decode returned {status} for {batch.n_tokens} tokens")
        return seconds

    def prefill(self, tokens):
        for i in range(0, len(tokens), N_BATCH):
            self.decode(self.batch(tokens[i : i + N_BATCH], i, "last"))

    def truncate(self, n):
        if not llama.llama_memory_seq_rm(self.memory, 0, n, -1):
            sys.exit(f"llama.cpp cannot go back to {n} tokens with this model")


def passes(engine, prefix, rows, repeats, logits):
    """Milliseconds of one pass over `rows` tokens after the prefix: the median. All of one kind stand in a row, as in
    generation, because llama.cpp then uses its graph again."""
    batch = engine.batch(engine.tokens(rows), prefix, logits)
    seconds = []
    for _ in range(WARM_UPS + repeats):
        seconds.append(engine.decode(batch))
        engine.truncate(prefix)
    llama.llama_batch_free(batch)
    return 1e3 * statistics.median(seconds[WARM_UPS:])


def cost(args):
    n_ctx = args.ctx or args.prefix + max(args.rows) + 64
    engine = Engine(args.model, args.threads, n_ctx, args.flash_attn)
    engine.prefill(engine.tokens(args.prefix))
    ms = {
        logits: {str(m): passes(engine, args.prefix, m, args.repeats, logits) for m in args.rows}
        for logits in args.logits
    }
    print(json.dumps({
        "ms": ms,
        "prefix": args.prefix,
        "threads": args.threads,
        "repeats": args.repeats,
        "n_ctx": llama.llama_n_ctx(engine.context),
        "n_batch": N_BATCH,
        "flash_attn": args.flash_attn,
        "weight_bytes": llama.llama_model_size(engine.model),
        "package": llama.__version__,
        "llama_cpp": llama.llama_version().decode(),
        "features": llama.llama_print_system_info().decode().strip(" |"),
    }, indent=2), flush=True)


class Chat:
    """Prompts as token ids, in the chat format of the file."""

    def __init__(self, engine):
        import llama_cpp.llama_chat_format as chat_format

        self.vocab = llama.llama_model_get_vocab(engine.model)
        piece = lambda token: llama.llama_vocab_get_text(self.vocab, token).decode()
        template = llama.llama_model_chat_template(engine.model, None)
        self.formatter = chat_format.Jinja2ChatFormatter(
            template.decode(), eos_token=piece(llama.llama_vocab_eos(self.vocab)),
            bos_token=piece(llama.llama_vocab_bos(self.vocab)))

    def encode(self, prompt):
        text = self.formatter(messages=[{"role": "user", "content": prompt}]).prompt.encode()
        ids = (llama.llama_token * (len(text) + 8))()
        n = llama.llama_tokenize(self.vocab, text, len(text), ids, len(ids), False, True)
        return list(ids[:n])


class Answer:
    """Greedy text of one prompt, drafted by the n-gram lookup of llama-cpp-python (`drafts` tokens at most; 0: plain).
    Drafting and bookkeeping count, the prompt's pass does not."""

    def __init__(self, engine, prompt, most, drafts):
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self.engine, self.most, self.rounds = engine, most, 0
        self.find = LlamaPromptLookupDecoding(num_pred_tokens=drafts) if drafts else None
        engine.truncate(0)
        engine.prefill(prompt)
        self.text, self.begin = [*prompt, self.likeliest([-1])[0]], len(prompt)
        start = time.perf_counter()
        while not self.done():
            self.round()
        self.seconds = time.perf_counter() - start
        self.tokens = self.text[self.begin :][:most]

    def likeliest(self, rows):
        get = lambda i: np.ctypeslib.as_array(llama.llama_get_logits_ith(self.engine.context, i), (self.engine.vocab,))
        return [int(get(i).argmax()) for i in rows]

    def done(self):
        vocab = llama.llama_model_get_vocab(self.engine.model)
        return len(self.text) - self.begin >= self.most or llama.llama_vocab_is_eog(vocab, self.text[-1])

    def round(self):
        left = self.most - (len(self.text) - self.begin) - 1
        found = self.find(np.array(self.text, dtype=np.intc))[:left] if self.find and left > 0 else []
        draft = [int(t) for t in found]
        position = len(self.text) - 1
        batch = self.engine.batch([self.text[-1], *draft], position, "all")
        self.engine.decode(batch)
        llama.llama_batch_free(batch)
        for i, token in enumerate(self.likeliest(range(len(draft) + 1))):
            self.text.append(token)
            if self.done() or i == len(draft) or token != draft[i]:
                break
        self.engine.truncate(len(self.text) - 1)
        self.rounds += 1


def generate(args):
    prompts = [json.loads(line)["prompt"] for line in args.prompts.read_text().splitlines() if line.strip()]
    engine = Engine(args.model, args.threads, args.ctx or 4096, args.flash_attn)
    chat = Chat(engine)
    encoded = [chat.encode(p) for p in prompts]
    Answer(engine, encoded[0], 16, args.drafts)  # warms up
    answers = []
    for tokens in encoded:
        a = Answer(engine, tokens, args.max_tokens, args.drafts)
        answers.append({"prompt_tokens": len(tokens), "tokens": len(a.tokens), "rounds": a.rounds, "seconds": a.seconds})
    print(json.dumps({"answers": answers, "drafts": args.drafts, "threads": args.threads, "package": llama.__version__}),
          flush=True)


def print_type(args):
    kinds = {getattr(llama, n): n.split("_", 3)[-1] for n in dir(llama) if re.match("LLAMA_FTYPE_(MOSTLY|ALL)_", n)}
    kind = llama.llama_model_ftype(load_model(args.model)) & ~llama.LLAMA_FTYPE_GUESSED
    print(kinds.get(kind, "as-is"), flush=True)


def quantize(args):
    params = llama.llama_model_quantize_default_params()
    params.ftype = getattr(llama, f"LLAMA_FTYPE_MOSTLY_{args.type}")
    params.allow_requantize = True
    part = args.out.with_name(f"{args.out.name}.part{os.getpid()}")
    try:
        if llama.llama_model_quantize(os.fsencode(args.model), os.fsencode(part), ctypes.byref(params)):
            sys.exit(f"llama.cpp cannot make a {args.type} file from {args.model}; without --quiet it says why")
        part.replace(args.out)
    finally:
        part.unlink(missing_ok=True)


def numbers(text):
    return [int(x) for x in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true", help="leave out what llama.cpp logs to standard error")
    commands = parser.add_subparsers(required=True, metavar="cost|generate|quantize|type")
    c = commands.add_parser("cost", help="milliseconds of one pass over M tokens after a prefix")
    c.add_argument("model", type=pathlib.Path)
    c.add_argument("--prefix", type=int, default=200, help="tokens before those that are timed (%(default)s)")
    c.add_argument("--rows", type=numbers, default=[1, 2, 4, 8, 16, 32], help="comma-separated numbers of tokens M")
    c.add_argument("--logits", type=lambda s: s.split(","), default=["all"],
                   help="all: of every token, as checking a draft needs; last: of the last one; or all,last")
    c.add_argument("--repeats", type=int, default=5, help="passes of each size; the median counts (%(default)s)")
    c.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    c.add_argument("--ctx", type=int, default=0, help="room for so many tokens, 0 = what is needed")
    c.add_argument("--flash-attn", choices=FLASH_ATTN, default="auto", help="(%(default)s, llama.cpp's own default)")
    c.set_defaults(run=cost)
    g = commands.add_parser("generate", help="greedy answers to prompts, one after the other")
    g.add_argument("model", type=pathlib.Path)
    g.add_argument("--prompts", type=pathlib.Path, required=True, help='JSON lines with a "prompt" each')
    g.add_argument("-n", "--max-tokens", type=int, default=128, help="of an answer (%(default)s)")
    g.add_argument("--drafts", type=int, default=0, help="n-gram drafts a round at most, 0 = plain (%(default)s)")
    g.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="(%(default)s)")
    g.add_argument("--ctx", type=int, default=0, help="room for so many tokens, 0 = 4096")
    g.add_argument("--flash-attn", choices=FLASH_ATTN, default="auto", help="(%(default)s, llama.cpp's own default)")
    g.set_defaults(run=generate)
    q = commands.add_parser("quantize", help="make a file of another type, from quantized tensors too")
    q.add_argument("model", type=pathlib.Path)
    q.add_argument("out", type=pathlib.Path)
    q.add_argument("--type", default="Q4_0", help="such as Q4_0 or Q8_0 (%(default)s)")
    q.set_defaults(run=quantize)
    t = commands.add_parser("type", help="print the type of a file, such as Q4_1")
    t.add_argument("model", type=pathlib.Path)
    t.set_defaults(run=print_type)
    return parser.parse_args()


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would wait for llama.cpp to return
    args = parse()
    llama.llama_backend_init()
    if args.quiet:
        silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        llama.llama_log_set(silent, None)
    args.run(args)
    sys.stdout.flush()
    os._exit(0)  # the log callback must not be called after Python has begun to take itself down


if __name__ == "__main__":
    main()
