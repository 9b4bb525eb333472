#!/usr/bin/env python3
"""Answers of a Llama model to prompts, as forerun distill writes them, many thousand at a time on a GPU (PyTorch, NumPy).

usage: sample_answers.py --model M.gguf --like distill.json --out DIR --prompts FOLDER [--samples 1] --temp 0.7 -n 192 --batch 4096
                         --context 512 --seed 1 [--time-limit SECONDS] [--device cuda] [--pack FILE]
       sample_answers.py --model M.gguf --like distill.json --out DIR --template FOLDER --self-prompts N [--self-temperature 1.0] ...
       sample_answers.py --unpack FILE --out DIR

--prompts names a folder of token shards; of each document its prompt is answered, under its id. --self-prompts lets the model write prompts
itself first; what stands around a user's turn is read from the prompts of --template (or --prompts). --like is the distill.json of a folder
that forerun distill made from the same model: it gives the hashes. With --samples K the folders DIR, DIR-2, ... DIR-K hold one answer to each
prompt. With a time limit no text is begun after it, running ones have --grace seconds to end, and what is complete is written (also after
Ctrl-C); texts begin in the order of their prompts' lengths, or with --order random in a random one. --pack also writes all folders as FILE.000,
FILE.001, ... of at most 15 MB each, which --unpack restores.

All slots of a batch advance by one token a step, captured as CUDA graphs; every 16 steps the host takes finished texts and refills their slots.
The same seed, batch, --attention and machine give the same answers. They are those of float32 or bf16 arithmetic, not bit for bit those of forerun.
"""

import argparse
import gc
import hashlib
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from token_shards import read_shard, shard, write

STEPS = 16                # between two looks of the host
BUCKET = 64               # attention spans are multiples of it
PREFILL_TOKENS = 1 << 16  # of one pass over prompts
PART = 15_000_000         # bytes of a file
END_NAMES = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")
CONTROL = 3               # llama.cpp's type of tokens that are no text


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- GGUF ---------------------------------------------------------------------------------------------------------------------------------

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
# type: (name, values a block, bytes a block)
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}


class Gguf:
    """Settings and tensors of a GGUF file."""

    def __init__(self, path):
        self.data = Path(path).read_bytes()
        if self.data[:4] != b"GGUF":
            raise SystemExit(f"{path}: no GGUF file")
        self.at = 4
        version, tensors, settings = self.scalar("<I"), self.scalar("<Q"), self.scalar("<Q")
        if version not in (2, 3):
            raise SystemExit(f"{path}: GGUF version {version} is not supported; 2 and 3 are")
        self.settings = {}
        for _ in range(settings):
            name = self.string()
            self.settings[name] = self.value(self.scalar("<I"))
        self.tensors = {}
        for _ in range(tensors):
            name = self.string()
            shape = [self.scalar("<Q") for _ in range(self.scalar("<I"))]
            kind, offset = self.scalar("<I"), self.scalar("<Q")
            self.tensors[name] = (kind, shape[::-1], offset)
        align = self.settings.get("general.alignment", 32)
        self.begin = (self.at + align - 1) // align * align

    def scalar(self, kind):
        value = struct.unpack_from(kind, self.data, self.at)[0]
        self.at += struct.calcsize(kind)
        return value

    def string(self):
        size = self.scalar("<Q")
        text = self.data[self.at:self.at + size]
        self.at += size
        return text.decode("utf-8", "replace")

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind != 9:
            return self.scalar(SCALARS[kind])
        kind = self.scalar("<I")
        return [self.value(kind) for _ in range(self.scalar("<Q"))]

    def tensor(self, name):
        """As float32."""
        if name not in self.tensors:
            raise SystemExit(f"tensor '{name}' is missing")
        kind, shape, offset = self.tensors[name]
        if kind not in TYPES:
            raise SystemExit(f"tensor '{name}' has type {kind}, which is not supported; " + ", ".join(t[0] for t in TYPES.values()) + " are")
        kind, values, size = TYPES[kind]
        count = int(np.prod(shape))
        blocks = np.frombuffer(self.data, np.uint8, count // values * size, self.begin + offset)
        return torch.from_numpy(dequantized(kind, blocks, size)).reshape(shape)


def dequantized(kind, data, size):
    if kind == "F32":
        return data.view("<f4").copy()
    if kind == "F16":
        return data.view("<f2").astype(np.float32)
    if kind == "BF16":
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    blocks = data.reshape(-1, size)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if kind == "Q8_0":
        return (blocks[:, 2:].copy().view(np.int8) * scale).reshape(-1)
    low = 4 if kind == "Q4_1" else 2
    q = blocks[:, low:]
    q = np.concatenate((q & 15, q >> 4), axis=1).astype(np.float32)
    if kind == "Q4_1":
        return (q * scale + blocks[:, 2:4].copy().view("<f2").astype(np.float32)).reshape(-1)
    return ((q - 8) * scale).reshape(-1)


def end_tokens(gguf):
    """As forerun's tokenizer: any of them ends a text."""
    names, types = gguf.settings["tokenizer.ggml.tokens"], gguf.settings["tokenizer.ggml.token_type"]
    ends = {i for i, name in enumerate(names) if name in END_NAMES and types[i] == CONTROL}
    if "tokenizer.ggml.eos_token_id" in gguf.settings:
        ends.add(gguf.settings["tokenizer.ggml.eos_token_id"])
    return sorted(ends)


# --- the model ----------------------------------------------------------------------------------------------------------------------------

class Model:
    """A decoder of the Llama family. The residual stream and logits are float32, matrices of layers `dtype`."""

    def __init__(self, gguf, device, dtype, context):
        if gguf.settings.get("general.architecture") != "llama":
            raise SystemExit("only models of the Llama family are supported")
        s = {k.removeprefix("llama."): v for k, v in gguf.settings.items() if k.startswith("llama.")}
        self.layers, self.hidden, self.eps = s["block_count"], s["embedding_length"], s.get("attention.layer_norm_rms_epsilon", 1e-6)
        self.heads = s["attention.head_count"]
        self.kv = s.get("attention.head_count_kv", self.heads)
        self.width = s.get("attention.key_length", self.hidden // self.heads)
        plain = s.get("rope.scaling.type", "none") == "none" and s.get("rope.dimension_count", self.width) == self.width
        if not plain or "rope_freqs.weight" in gguf.tensors or "blk.0.attn_q.bias" in gguf.tensors or "expert_count" in s:
            raise SystemExit("scaled or partial rotary embeddings, biases and experts are not supported")
        self.device, self.dtype = device, dtype
        self.embedding = gguf.tensor("token_embd.weight").to(device)
        self.head = gguf.tensor("output.weight").to(device) if "output.weight" in gguf.tensors else self.embedding
        self.norm = gguf.tensor("output_norm.weight").to(device)
        self.blocks = [self.block(gguf, i) for i in range(self.layers)]
        angle = torch.outer(torch.arange(context, dtype=torch.float64),
                            s.get("rope.freq_base", 10000.0) ** (-torch.arange(0, self.width, 2, dtype=torch.float64) / self.width))
        self.cos, self.sin = angle.cos().float().to(device), angle.sin().float().to(device)

    def block(self, gguf, i):
        def get(name):
            return gguf.tensor(f"blk.{i}.{name}.weight")

        def rotated(name, heads):  # the file holds pairs of a rotation side by side; here they are half a head apart
            w = get(name)
            return w.view(heads, self.width // 2, 2, self.hidden).transpose(1, 2).reshape(w.shape)

        qkv = torch.cat((rotated("attn_q", self.heads), rotated("attn_k", self.kv), get("attn_v")))
        matrices = {"qkv": qkv, "out": get("attn_output"), "up": torch.cat((get("ffn_gate"), get("ffn_up"))), "down": get("ffn_down")}
        block = {k: v.to(self.device, self.dtype).contiguous() for k, v in matrices.items()}
        return block | {"norm": get("attn_norm").to(self.device), "norm2": get("ffn_norm").to(self.device)}

    def rotate(self, x, positions):
        """@param x  [..., heads, width], with positions [...]"""
        cos, sin = self.cos[positions].unsqueeze(-2), self.sin[positions].unsqueeze(-2)
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(self.dtype)

    def run(self, tokens, positions, attend):
        """The last layer's states [..., hidden]; attend(layer, queries, keys, values) is given [..., heads, width]."""
        x = self.embedding[tokens]
        for i, w in enumerate(self.blocks):
            h = F.rms_norm(x, (self.hidden,), w["norm"], self.eps).to(self.dtype)
            qkv = F.linear(h, w["qkv"]).unflatten(-1, (self.heads + 2 * self.kv, self.width))
            qk = self.rotate(qkv[..., :self.heads + self.kv, :], positions)
            a = attend(i, qk[..., :self.heads, :], qk[..., self.heads:, :], qkv[..., self.heads + self.kv:, :])
            x = x + F.linear(a, w["out"])
            h = F.rms_norm(x, (self.hidden,), w["norm2"], self.eps).to(self.dtype)
            gate, up = F.linear(h, w["up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w["down"])
        return x

    def logits(self, x):
        return F.linear(F.rms_norm(x, (self.hidden,), self.norm, self.eps), self.head)

    def prompt_pass(self, tokens, keep=None):
        """Causal pass over tokens [texts, length]; keep(layer, keys, values) is given [texts, kv, length, width]."""
        def attend(i, q, k, v):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            if keep:
                keep(i, k, v)
            k, v = (t.repeat_interleave(self.heads // self.kv, dim=1) for t in (k, v))
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                a = F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous(), is_causal=True)
            return a.transpose(1, 2).flatten(2)

        positions = torch.arange(tokens.shape[1], device=self.device).expand(tokens.shape)
        return self.run(tokens, positions, attend)


# --- slots --------------------------------------------------------------------------------------------------------------------------------

class Slots:
    """Texts that advance together, and the step that advances them. A slot's text is a row of `text`; its first `known` tokens are given."""

    def __init__(self, model, batch, context, ends, greedy, graphs):
        self.model, self.batch, self.context, self.greedy = model, batch, context, greedy
        d = self.device = model.device
        self.keys, self.values = (torch.zeros(model.layers, batch, model.kv, context, model.width, device=d, dtype=model.dtype) for _ in range(2))
        self.text = torch.zeros(batch, context, dtype=torch.int64, device=d)
        self.rows = torch.arange(batch, device=d)
        self.span = torch.arange(context, device=d)
        self.ends = torch.tensor(ends, device=d)
        # Of each slot: where the next token to read stands, tokens that are given, the most tokens, those of a finished text, whether it runs.
        self.pos, self.known, self.limit, self.length, self.alive = torch.zeros(5, batch, dtype=torch.int64, device=d).unbind()
        self.temperature = torch.ones(batch, device=d)
        self.graphs = graphs
        self.attend_by("bmm")

    def attend_by(self, way):
        """@param way  bmm or sdpa"""
        self.attention, self.captured, self.pool = way, {}, None  # graphs in one pool of memory never run at the same time

    def attend(self, width):
        """Attention of one token a slot to its first `width` positions at most."""
        m, b = self.model, self.batch
        group = m.heads // m.kv
        bias = torch.zeros(b, width, device=self.device, dtype=m.dtype).masked_fill_(self.span[:width] > self.pos[:, None], float("-inf"))
        whole = bias[:, None, None].expand(b, m.kv, group, width)
        rows = whole.reshape(b * m.kv, group, width) if self.attention == "bmm" else None

        def attend(i, q, k, v):
            self.keys[i][self.rows, :, self.pos] = k
            self.values[i][self.rows, :, self.pos] = v
            k, v = self.keys[i][:, :, :width], self.values[i][:, :, :width]
            q = q.reshape(b, m.kv, group, m.width)
            if self.attention == "sdpa":
                with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                    return F.scaled_dot_product_attention(q, k, v, attn_mask=whole).reshape(b, m.heads * m.width)
            k, v = (t.view(b * m.kv, width, m.width) for t in (k, v))  # a view, or an error: never a copy of the cache
            q = q.reshape(b * m.kv, group, m.width) * m.width ** -0.5
            p = torch.baddbmm(rows, q, k.transpose(1, 2)).softmax(-1)
            return torch.bmm(p, v).reshape(b, m.heads * m.width)

        return attend

    def next_logits(self, width):
        token = self.text.gather(1, self.pos[:, None])[:, 0]
        return self.model.logits(self.model.run(token, self.pos, self.attend(width)))

    def draw(self, logits):
        """From the softmax of logits / temperature: the token of the smallest exponential variable over its probability. Changes the logits."""
        if self.greedy:
            return logits.argmax(-1)
        law = logits.div_(self.temperature[:, None]).softmax(-1)
        # log1p(-u) is exact where u is small, which decides; with a 0 a token of no probability could win.
        noise = torch.empty_like(logits).uniform_(2.0 ** -25, 1.0).neg_().log1p_()
        return law.div_(noise).argmin(-1)

    def step(self, width):
        drawn = self.draw(self.next_logits(width))
        following = (self.pos + 1).clamp_max(self.context - 1)
        there = self.text.gather(1, following[:, None])[:, 0]
        running = self.alive != 0
        given = following < self.known
        token = torch.where(given | ~running, there, drawn)
        self.text.scatter_(1, following[:, None], token[:, None])
        is_end = (token[:, None] == self.ends).any(1)
        done = running & ~given & (is_end | (following + 1 >= self.limit))
        self.length.copy_(torch.where(done, following + 1, self.length))
        self.pos.copy_(torch.where(running & ~done, following, self.pos))
        self.alive.copy_((running & ~done).to(torch.int64))

    def advance(self, width):
        """STEPS steps, of slots that read at most `width` positions."""
        if self.graphs and width not in self.captured:
            self.capture(width)
        for _ in range(STEPS):
            if self.graphs:
                self.captured[width].replay()
            else:
                self.step(width)

    def capture(self, width):
        """The step is run to warm up, but no text advances."""
        alive = self.alive.clone()
        try:
            self.alive.zero_()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self.step(width)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.step(width)
            self.pool = self.pool or graph.pool()
            self.captured[width] = graph
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as e:
            say(f"no CUDA graph: {e}; going on without, which is slower")
            self.graphs = False
        self.alive.copy_(alive)

    def fill(self, slots, texts, positions, known, limits, temperatures):
        """Puts texts (token arrays) into slots."""
        d = self.device
        block = np.zeros((len(slots), self.context), np.int64)
        for row, text in zip(block, texts):
            row[:len(text)] = text
        index = torch.tensor(slots, device=d)
        self.text.index_copy_(0, index, torch.from_numpy(block).to(d))
        for name, values in (("pos", positions), ("known", known), ("limit", limits), ("alive", [1] * len(slots))):
            getattr(self, name).index_copy_(0, index, torch.tensor(values, dtype=torch.int64, device=d))
        self.temperature.index_copy_(0, index, torch.tensor(temperatures, dtype=torch.float32, device=d).clamp_min_(1e-4))

    def prefill(self, slots, texts):
        """Keys and values of all tokens but the last, many texts in one pass."""
        order = sorted(range(len(slots)), key=lambda i: len(texts[i]))
        while order:
            length = min(self.context, (len(texts[order[-1]]) - 1 + 31) // 32 * 32)
            if length <= 0:
                return
            count = min(len(order), max(1, PREFILL_TOKENS // length))
            chunk, order = order[-count:], order[:-count]
            block = np.zeros((count, length), np.int64)
            for row, i in zip(block, chunk):
                row[:len(texts[i]) - 1] = texts[i][:-1]
            self.prefill_chunk(torch.tensor([slots[i] for i in chunk], device=self.device), torch.from_numpy(block).to(self.device))

    def prefill_chunk(self, index, tokens):
        length = tokens.shape[1]

        def keep(i, k, v):
            # What stands behind a text's end is written anew before it is read.
            self.keys[i][:, :, :length].index_copy_(0, index, k)
            self.values[i][:, :, :length].index_copy_(0, index, v)

        self.model.prompt_pass(tokens, keep)

    def state(self):
        """(running, positions, lengths) of all slots: waits for the device."""
        return torch.stack((self.alive, self.pos, self.length)).cpu().numpy()

    def texts(self, slots):
        return self.text.index_select(0, torch.tensor(slots, device=self.device)).cpu().numpy()

    def choose_attention(self, ways):
        """The faster way on this device; also sees early whether memory suffices."""
        seconds, graphs = {}, self.graphs
        for way in ways:
            self.attend_by(way)
            self.graphs = graphs
            try:
                self.advance(self.context)
                torch.cuda.synchronize()
                begin = time.monotonic()
                self.advance(self.context)
                torch.cuda.synchronize()
                seconds[way] = (time.monotonic() - begin) / STEPS
            except torch.cuda.OutOfMemoryError:
                if not seconds:
                    raise
            except RuntimeError as e:
                say(f"attention by {way} fails: {e}")
        if not seconds:
            raise SystemExit("no way of attention works on this device")
        self.attend_by(min(seconds, key=seconds.get))
        self.graphs = graphs
        say(f"a step at {self.context} positions: " + ", ".join(f"{k} {v * 1000:.1f} ms" for k, v in seconds.items()))
        count = max(1, min(self.batch, PREFILL_TOKENS // self.context))
        self.prefill_chunk(self.rows[:count], self.text[:count])


def make_slots(model, args, ends, greedy):
    """As many slots as memory holds, from --batch down."""
    batch = args.batch
    while True:
        try:
            slots = Slots(model, batch, args.context, ends, greedy, model.device.type == "cuda" and not args.no_graph)
            if model.device.type == "cuda":
                slots.choose_attention(("bmm", "sdpa") if args.attention == "auto" else (args.attention,))
            elif args.attention != "auto":
                slots.attend_by(args.attention)
            return slots
        except torch.cuda.OutOfMemoryError as e:
            say(f"{batch} slots do not fit: {str(e).splitlines()[0]}")
        slots = None
        gc.collect()
        torch.cuda.empty_cache()
        batch //= 2
        if batch == 0:
            raise SystemExit("not even one slot fits into memory")


def check(slots, gguf, text):
    """Logits of the device after a text, beside those of float32 on the processor: a warning of what would spoil all answers."""
    text = text[:64]
    if len(text) < 2:
        return
    reference = Model(gguf, torch.device("cpu"), torch.float32, len(text))
    expected = reference.logits(reference.prompt_pass(torch.tensor(np.array(text, np.int64))[None])[0, -1])
    width = min(slots.context, (len(text) + BUCKET - 1) // BUCKET * BUCKET)
    everyone = list(range(slots.batch))
    for way in dict.fromkeys((slots.attention, "bmm")):
        slots.attend_by(way)
        slots.fill(everyone, [text] * slots.batch, [len(text) - 1] * slots.batch, [len(text)] * slots.batch, [slots.context] * slots.batch,
                   [0.0] * slots.batch)
        slots.prefill(everyone, [text] * slots.batch)
        got = slots.next_logits(width)[[0, slots.batch - 1]].cpu()
        slots.alive.zero_()
        gap = (got - expected).abs().max().item()
        same = bool((got.argmax(-1) == expected.argmax()).all())
        say(f"check of {way}: logits differ from float32's by {gap:.3f} at most, the likeliest token is {'the same' if same else 'ANOTHER'}")
        if gap < 1.5:
            return
    say("WARNING: the logits are wrong, or this model is no good in bf16: look at the answers before they are used")


# --- texts --------------------------------------------------------------------------------------------------------------------------------

class Run:
    """Lets slots write all texts."""

    def __init__(self, slots, jobs, args, closing, control, clock):
        """@param jobs  (id, sample, prompt, whether it is the beginning of one that the model writes), the first to begin at the end"""
        self.slots, self.jobs, self.args, self.closing, self.control, self.clock = slots, jobs, args, closing, control, clock
        self.total, self.documents, self.refused, self.unfinished = len(jobs), [], 0, 0
        self.running = {}  # slot: job
        self.free = list(range(slots.batch))
        self.stepped = self.answered = self.done = 0
        self.stopped = False

    def go(self):
        begin = said = time.monotonic()
        positions = np.zeros(self.slots.batch, np.int64)
        while True:
            if self.late(0):
                self.unfinished += len(self.jobs)
                self.jobs = []
            positions = self.refill(positions)
            if not self.running or self.late(self.args.grace):
                break
            most = int(positions[list(self.running)].max()) + STEPS + 1
            self.slots.advance(min(self.slots.context, (most + BUCKET - 1) // BUCKET * BUCKET))
            self.stepped += STEPS * len(self.running)
            alive, positions, lengths = self.slots.state()
            self.harvest([s for s in self.running if not alive[s]], positions, lengths)
            if time.monotonic() - said > 5:
                said = time.monotonic()
                self.report(said - begin)
        self.unfinished += len(self.running)
        self.report(time.monotonic() - begin)

    def late(self, grace):
        return self.stopped or (self.args.time_limit > 0 and time.monotonic() - self.clock > self.args.time_limit + grace)

    def refill(self, positions):
        count = min(len(self.free), len(self.jobs))
        if count == 0:
            return positions
        taken, self.free = self.free[:count], self.free[count:]
        jobs = [self.jobs.pop() for _ in range(count)]
        texts = [job[2] for job in jobs]
        sizes = [len(t) for t in texts]
        self.slots.fill(taken, texts, [n - 1 for n in sizes], sizes, [min(n + self.args.n, self.slots.context) for n in sizes],
                        [self.args.self_temperature if job[3] else self.args.temp for job in jobs])
        self.slots.prefill(taken, texts)
        self.running.update(zip(taken, jobs))
        positions[taken] = [n - 1 for n in sizes]
        return positions

    def harvest(self, ended, positions, lengths):
        if not ended:
            return
        answers = []  # slots whose prompt is written
        for slot, row in zip(ended, self.slots.texts(ended)):
            number, sample, prompt, own = self.running[slot]
            text = row[:lengths[slot]].astype(np.int32)
            whole = self.prompt_of(text, len(prompt)) if own else None
            if whole is not None:
                answers.append((slot, whole, len(text) - 1))
                self.running[slot] = (number, sample, whole, False)
                continue
            if own:
                self.refused += 1
            else:
                self.documents.append((sample, number, len(prompt), text))
                self.answered += len(text) - len(prompt)
            self.done += 1
            del self.running[slot]
            self.free.append(slot)
        if answers:
            # What the model wrote is read already: it goes on at the end of its turn.
            slots, texts, at = zip(*answers)
            sizes = [len(t) for t in texts]
            self.slots.fill(list(slots), texts, list(at), sizes, [n + self.args.n for n in sizes], [self.args.temp] * len(slots))
            positions[list(slots)] = at

    def prompt_of(self, text, opening):
        """A turn that the model wrote, closed as the chat format does; None if it is none: cut short, empty, not plain text, or too long."""
        written = text[opening:-1]
        if text[-1] not in self.args.ends or len(written) == 0 or self.control[written].any():
            return None
        whole = np.concatenate((text[:-1], self.closing)).astype(np.int32)
        return whole if len(whole) + self.args.n <= self.slots.context else None

    def report(self, seconds):
        rate = self.done / max(seconds, 1e-9)
        left = f"{(self.total - self.done) / rate:.0f} s left" if rate > 0 else ""
        say(f"{seconds:6.1f} s  {self.stepped / max(seconds, 1e-9):9,.0f} tokens/s (answers {self.answered / max(seconds, 1e-9):,.0f})  "
            f"{self.done} of {self.total} texts  {len(self.running)} running  {left}")


# --- files --------------------------------------------------------------------------------------------------------------------------------

def read_prompts(folder):
    """(id, tokens of the prompt) of the documents of a folder."""
    paths = sorted(p for p in Path(folder).iterdir() if p.name.endswith((".safetensors", ".safetensors.gz")))
    out = [(number, np.array(prompt, np.int32)) for path in paths for number, prompt, _ in read_shard(path) if prompt]
    if not out:
        raise SystemExit(f"{folder}: holds no prompts")
    return out


def common_beginning(arrays):
    """Of all of them."""
    first, same = arrays[0], len(arrays[0])
    for a in arrays[1:]:
        n = min(same, len(a))
        differ = np.flatnonzero(a[:n] != first[:n])
        same = int(differ[0]) if len(differ) else n
    return first[:same]


def expect_empty(folder):
    if os.path.isdir(folder) and any(p.suffix == ".safetensors" or p.name == "distill.json" for p in Path(folder).iterdir()):
        raise SystemExit(f"{folder} holds answers already: choose another --out")


def write_folder(folder, manifest, documents):
    """@param documents  (id, size of the prompt, tokens), by id"""
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, "distill.json"), (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode())
    part, size, number = [], 0, 0
    for d in documents + [None]:
        grown = size + 24 + 4 * len(d[2]) if d else 0
        if part and (d is None or len(part) == 4000 or grown > PART - 1000):
            pairs = [(text[:prompt].tolist(), text[prompt:].tolist()) for _, prompt, text in part]
            write(os.path.join(folder, f"tokens-{number:05}.safetensors"), shard(pairs, [i for i, _, _ in part]))
            part, number, grown = [], number + 1, grown - size
        if d:
            part.append(d)
            size = grown
    say(f"{folder}: {len(documents)} answers, {sum(len(d[2]) - d[1] for d in documents)} tokens")


def folder_name(out, sample):
    return out if sample == 0 else f"{out}-{sample + 1}"


def pack(file, folders):
    """@param folders  (manifest, documents) of each. A header's size, the header, then of all documents lengths, prompts, ids, tokens."""
    documents = [d for _, ds in folders for d in ds]
    header = json.dumps({"format": "forerun packed answers 1", "folders": [{"manifest": m, "documents": len(ds)} for m, ds in folders]}).encode()
    columns = [np.array(c, "<i4").tobytes() for c in ([len(d[2]) for d in documents], [d[1] for d in documents], [d[0] for d in documents])]
    tokens = np.concatenate([d[2] for d in documents] or [np.zeros(0)]).astype("<u2").tobytes()
    data = struct.pack("<Q", len(header)) + header + b"".join(columns) + tokens
    for number, begin in enumerate(range(0, len(data), PART)):
        write(f"{file}.{number:03}", data[begin:begin + PART])


def unpack(file, out):
    parts = sorted(p for p in Path(file).parent.iterdir() if p.name.startswith(Path(file).name + ".") and p.suffix[1:].isdigit())
    if [int(p.suffix[1:]) for p in parts] != list(range(len(parts))) or not parts:
        raise SystemExit(f"{file}: parts {file}.000, ... are missing")
    data = b"".join(p.read_bytes() for p in parts)
    size = int.from_bytes(data[:8], "little")
    header, at = json.loads(data[8:8 + size]), 8 + size
    count = sum(f["documents"] for f in header["folders"])
    lengths, prompts, ids = np.frombuffer(data, "<i4", 3 * count, at).reshape(3, count)
    tokens = np.frombuffer(data, "<u2", -1, at + 12 * count)
    if len(tokens) != lengths.sum():
        raise SystemExit(f"{file}: a part is missing or damaged")
    texts = np.split(tokens.astype(np.int32), np.cumsum(lengths)[:-1])
    documents = list(zip(ids.tolist(), prompts.tolist(), texts))
    for sample, f in enumerate(header["folders"]):
        write_folder(folder_name(out, sample), f["manifest"], documents[:f["documents"]])
        documents = documents[f["documents"]:]


# --- command line -------------------------------------------------------------------------------------------------------------------------

def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--like", "--prompts", "--template", "--pack", "--unpack"):
        p.add_argument(name)
    p.add_argument("--out", required=True)
    p.add_argument("--samples", type=int, default=1)
    p.add_argument("--self-prompts", type=int, default=0)
    p.add_argument("--self-temperature", type=float, default=1.0)
    p.add_argument("--temp", type=float, default=0.0)
    p.add_argument("-n", type=int, default=192)
    p.add_argument("--batch", type=int, default=4096)
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--time-limit", type=float, default=0.0)
    p.add_argument("--grace", type=float, default=15.0)
    p.add_argument("--order", choices=("length", "random"), default="length")
    p.add_argument("--limit", type=int, default=0, help="answer the first so many prompts only")
    p.add_argument("--device", default="cuda")
    p.add_argument("--attention", choices=("auto", "bmm", "sdpa"), default="auto")
    p.add_argument("--no-graph", action="store_true")
    args = p.parse_args()
    if args.unpack:
        return args
    if not args.model or not args.like or not (args.prompts or args.self_prompts):
        p.error("--model, --like and one of --prompts, --self-prompts are needed")
    if args.self_prompts and not (args.template or args.prompts):
        p.error("--self-prompts needs --template: a folder of prompts in the chat format")
    if args.self_prompts and args.samples != 1:
        p.error("--self-prompts with --samples: a prompt of the model is answered once")
    if args.context < args.n + 2 or args.n < 1 or args.batch < 1 or args.samples < 1 or args.temp < 0 or args.self_temperature <= 0:
        p.error("-n, --batch, --samples: 1 or more; --context: more than -n; --temp: 0 or more; --self-temperature: above 0")
    return args


def jobs_of(args, prompts):
    """What to write, the first at the end, and the closing of a turn."""
    fitting = [(i, t) for i, t in prompts if len(t) + args.n <= args.context]
    if len(fitting) < len(prompts):
        say(f"{len(prompts) - len(fitting)} prompts are longer than {args.context} - {args.n} tokens: skipped")
    order = np.random.default_rng(args.seed).permutation(len(fitting)).tolist()
    if args.order == "length":
        order.sort(key=lambda i: len(fitting[i][1]))
    jobs = [(*fitting[i][:1], s, fitting[i][1], False) for i in order for s in range(args.samples)]
    closing = None
    if args.self_prompts:
        examples = [t for _, t in read_prompts(args.template)] if args.template else [t for _, t in prompts]
        opening, closing = common_beginning(examples), common_beginning([t[::-1] for t in examples])[::-1]
        if len(examples) < 100 or len(opening) == 0 or len(closing) == 0:
            raise SystemExit("--template: what is common to fewer than 100 prompts, or nothing, is no chat format")
        say(f"a turn stands between {opening.tolist()} and {closing.tolist()}")
        if len(opening) + 2 * args.n + len(closing) > args.context:
            say(f"prompts that the model writes are at most {args.context - args.n} tokens long, for {args.n} of an answer to fit")
        first = args.first_id
        jobs += [(first + i, 0, opening, True) for i in range(args.self_prompts)]
    return jobs[::-1], closing


def manifest_of(args, prompts):
    manifest = json.loads(Path(args.like).read_text())
    words = hashlib.sha256(b"".join(t.tobytes() for _, t in prompts)).hexdigest()[:16]
    manifest.update(max_tokens=args.n, min_p=0.0, precision=args.precision, prompts=args.first_id, prompts_hash=words, seed=args.seed,
                    self_temperature=args.self_temperature, temperature=args.temp, top_k=0, top_p=1.0)
    return manifest


def main():
    clock = time.monotonic()
    args = arguments()
    if args.unpack:
        expect_empty(args.out)
        unpack(args.unpack, args.out)
        return
    for sample in range(args.samples):
        expect_empty(folder_name(args.out, sample))
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("high")  # logits: inputs of 10 bits or more, sums of float32
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    args.precision = "bf16" if device.type == "cuda" else "f32"
    prompts = read_prompts(args.prompts) if args.prompts else []
    args.first_id = max((i for i, _ in prompts), default=-1) + 1
    if args.limit:
        prompts = prompts[:args.limit]
    manifest = manifest_of(args, prompts)
    jobs, closing = jobs_of(args, prompts)
    if not jobs:
        raise SystemExit("no prompt to answer")
    gguf = Gguf(args.model)
    args.ends = end_tokens(gguf)
    vocab = len(gguf.settings["tokenizer.ggml.tokens"])
    if vocab > 1 << 16 or vocab != manifest["vocab"]:
        raise SystemExit(f"the model has {vocab} tokens, --like says {manifest['vocab']}; more than 65536 are not supported")
    model = Model(gguf, device, torch.bfloat16 if device.type == "cuda" else torch.float32, args.context)
    args.batch = min(args.batch, len(jobs))
    slots = make_slots(model, args, args.ends, args.temp == 0 and not args.self_prompts)
    if device.type == "cuda":
        check(slots, gguf, next((j[2] for j in jobs if len(j[2]) >= 16), jobs[-1][2]))
        say(f"{slots.batch} slots, attention by {slots.attention}, {'CUDA graphs' if slots.graphs else 'no graphs'}, "
            f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of {torch.cuda.get_device_properties(device).total_memory / 2**30:.1f} used; "
            f"started after {time.monotonic() - clock:.0f} s")
    run = Run(slots, jobs, args, closing, np.array(gguf.settings["tokenizer.ggml.token_type"]) == CONTROL, clock)

    def stop(*_):
        run.stopped = True
        args.grace = 0

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        run.go()
    except torch.cuda.OutOfMemoryError as e:
        say(f"{str(e).splitlines()[0]}: what is complete is written; try a smaller --batch for the rest")
    if run.refused or run.unfinished:
        say(f"{run.refused} prompts of the model were refused: cut short, empty, with control tokens, or too long; "
            f"{run.unfinished} texts are not finished")
    run.documents.sort(key=lambda d: d[:2])
    folders = [(manifest, [d[1:] for d in run.documents if d[0] == s]) for s in range(args.samples)]
    if args.pack:
        os.makedirs(Path(args.pack).resolve().parent, exist_ok=True)
        pack(args.pack, folders)
    for sample, (settings, documents) in enumerate(folders):
        write_folder(folder_name(args.out, sample), settings, documents)


if __name__ == "__main__":
    main()
