#!/usr/bin/env python3
"""What SmolLM2-135M-Instruct computes, by transformers, with exactly the weights of the Q4_1 GGUF file.

usage: make_smollm2_values.py [--model FILE.gguf]                             writes tests/data/smollm2/expected.safetensors
       make_smollm2_values.py [--model FILE.gguf] --compare FILE.npy --text I  checks a program's full logits

The model runs in float32 with eager attention on three texts (tools/texts/*.txt). For text I = 0, 1, 2 of n tokens:
  tokens_I   [n]      token ids                     argmax_I  [n]  id of the largest logit
  logits_I   [n, 64]  logits of the ids `ids` [64]  lse_I     [n]  log of the sum of exp(logits)
  top_ids_I  [n, 8], top_logits_I [n, 8]            the eight largest, falling
All float32 (ids are exact: they are below 2^24). --compare takes [n, vocab] float32 in numpy's format.
"""

import argparse
import os
import pathlib

import numpy as np
import torch
from gguf import GGUFReader, quants
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from tiny_gguf import unpermute_halves

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("FORERUN_MODEL_CACHE")
                     or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "forerun")
TEXTS = sorted((ROOT / "tools" / "texts").glob("*.txt"))
PARTS = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def hugging_face_name(name):
    """The Hugging Face name of a llama tensor in a GGUF file."""
    top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
    if name in top:
        return top[name]
    _, block, part, kind = name.split(".")
    return f"model.layers.{block}.{PARTS[part]}.{kind}"


def load_model(reader):
    """LlamaForCausalLM in float32 with the file's weights, dequantised."""
    def field(key):
        return reader.fields[f"llama.{key}"].contents()
    heads, kv_heads = field("attention.head_count"), field("attention.head_count_kv")
    state = {}
    for tensor in reader.tensors:
        value = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            value = unpermute_halves(value, heads if "attn_q" in tensor.name else kv_heads)
        state[hugging_face_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(value))
    config = LlamaConfig(
        vocab_size=state["model.embed_tokens.weight"].shape[0], hidden_size=field("embedding_length"),
        intermediate_size=field("feed_forward_length"), num_hidden_layers=field("block_count"),
        num_attention_heads=heads, num_key_value_heads=kv_heads, rms_norm_eps=field("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=field("context_length"), tie_word_embeddings="lm_head.weight" not in state,
        rope_parameters={"rope_type": "default", "rope_theta": field("rope.freq_base")}, attn_implementation="eager")
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    rotary = type(model.model.rotary_emb)(config)  # its table is no weight: made anew, off the meta device
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.model.rotary_emb = rotary
    model.tie_weights()
    return model.eval()


def load_tokenizer(reader):
    """The file's byte-level BPE: digits stand alone, else GPT-2's splitting (what `smollm` names)."""
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    assert reader.fields["tokenizer.ggml.pre"].contents() == "smollm"
    bpe = models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges])
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def full_logits(model, tokens):
    """[n, vocab] float32."""
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float()


def reduced(index, tokens, logits, ids):
    """What a test keeps of [n, vocab] logits."""
    top = logits.topk(8, dim=-1)
    return {f"tokens_{index}": torch.tensor(tokens).float(), f"argmax_{index}": logits.argmax(-1).float(),
            f"logits_{index}": logits[:, ids].contiguous(), f"lse_{index}": logits.logsumexp(-1),
            f"top_ids_{index}": top.indices.float(), f"top_logits_{index}": top.values.contiguous()}


def compare(model, tokenizer, path, index):
    """Prints how far [n, vocab] logits in `path` are from the reference."""
    tokens = tokenizer.encode(TEXTS[index].read_text(encoding="utf-8")).ids
    want, got = full_logits(model, tokens), torch.from_numpy(np.load(path)).float()
    if got.shape != want.shape:
        raise SystemExit(f"{path}: shape {list(got.shape)}, expected {list(want.shape)}; pass the logits of every "
                         f"token of {TEXTS[index].name}, or another --text")
    p = want.log_softmax(-1)
    divergence = (p.exp() * (p - got.log_softmax(-1))).sum(-1)
    print(f"text {index} ({TEXTS[index].name}), {len(tokens)} tokens: max |difference| {(got - want).abs().max():.6f}, "
          f"argmax equal at {int((got.argmax(-1) == want.argmax(-1)).sum())} of {len(tokens)}, "
          f"KL(reference || given) mean {divergence.mean():.3g} max {divergence.max():.3g} nats")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf", help="the GGUF file")
    parser.add_argument("--compare", metavar="FILE.npy", help="[n, vocab] float32 logits to compare with")
    parser.add_argument("--text", type=int, default=0, choices=range(len(TEXTS)), help="which text they are for")
    args = parser.parse_args()
    reader = GGUFReader(args.model)
    model, tokenizer = load_model(reader), load_tokenizer(reader)
    if args.compare:
        compare(model, tokenizer, args.compare, args.text)
        return
    ids = torch.randperm(model.config.vocab_size, generator=torch.Generator().manual_seed(135))[:64].sort().values
    kept = {"ids": ids.float()}
    for index, path in enumerate(TEXTS):
        text = path.read_text(encoding="utf-8")
        tokens = tokenizer.encode(text).ids
        assert tokenizer.decode(tokens) == text, path
        logits = full_logits(model, tokens)
        kept |= reduced(index, tokens, logits, ids)
        nats = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:])).item()
        print(f"text {index} ({path.name}): {len(tokens)} tokens, {nats:.3f} nats per token")
    folder = ROOT / "tests" / "data" / "smollm2"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(kept, folder / "expected.safetensors")
    (folder / "expected.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
