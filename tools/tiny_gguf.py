"""Writes a tiny model, given as a Hugging Face state dict, as GGUF: names, permutations and metadata as
llama.cpp's converter makes them. Also reads such a file back, so that a script can check what it wrote."""

import math

import numpy as np
from gguf import (ExpertGatingFuncType, GGMLQuantizationType, GGUFReader, GGUFWriter, MODEL_ARCH, RopeScalingType, TokenType,
                  get_tensor_name_map, quants)

ARCHITECTURES = {  # config.json's model_type: (the name in the file, the gguf package's table of tensor names)
    "llama": ("llama", MODEL_ARCH.LLAMA),
    "mistral": ("llama", MODEL_ARCH.LLAMA),
    "mixtral": ("llama", MODEL_ARCH.LLAMA),
    "smollm3": ("smollm3", MODEL_ARCH.SMOLLM3),
    "granite": ("granite", MODEL_ARCH.GRANITE),
    "granitemoeshared": ("granitemoe", MODEL_ARCH.GRANITE_MOE),
    "ernie4_5_moe": ("ernie4_5-moe", MODEL_ARCH.ERNIE4_5_MOE),
    "gemma2": ("gemma2", MODEL_ARCH.GEMMA2),
    "phi3": ("phi3", MODEL_ARCH.PHI3),
    "olmo2": ("olmo2", MODEL_ARCH.OLMO2),
    "olmo3": ("olmo2", MODEL_ARCH.OLMO2),
    "glm4": ("glm4", MODEL_ARCH.GLM4),
    "qwen2": ("qwen2", MODEL_ARCH.QWEN2),
    "qwen3": ("qwen3", MODEL_ARCH.QWEN3),
    "qwen3_moe": ("qwen3moe", MODEL_ARCH.QWEN3MOE),
    "qwen2_moe": ("qwen2moe", MODEL_ARCH.QWEN2MOE),
    "olmoe": ("olmoe", MODEL_ARCH.OLMOE),
    "glm4_moe": ("glm4moe", MODEL_ARCH.GLM4_MOE),
    "gemma3_text": ("gemma3", MODEL_ARCH.GEMMA3),
    "gpt_oss": ("gpt-oss", MODEL_ARCH.GPT_OSS),
    "lfm2": ("lfm2", MODEL_ARCH.LFM2),
    "qwen3_5_text": ("qwen35", MODEL_ARCH.QWEN35),
    "lfm2_moe": ("lfm2moe", MODEL_ARCH.LFM2MOE),
    "qwen3_next": ("qwen3next", MODEL_ARCH.QWEN3NEXT),
    "qwen3_5_moe_text": ("qwen35moe", MODEL_ARCH.QWEN35MOE),
}
LLAMA = ("llama", "mistral", "mixtral", "smollm3", "granite", "granitemoeshared")  # whose rotary pairs lie side by side in the file


GEMMA = ("gemma2", "gemma3_text")
CENTERED = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")  # as Gemma's norms, but for those of recurrent layers
TILED = ("qwen3_5_text", "qwen3_5_moe_text")
SHARED_GATE = ("qwen2_moe", "qwen3_5_moe_text", "qwen3_next")


def tiny_vocabulary(size):
    """(tokens, merges, kinds): three special tokens, printable ASCII as byte-level BPE spells it, four merges, and
    unused tokens up to `size`."""
    special = ["<unk>", "<s>", "</s>"]
    letters = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["\u0120", "\u010a"]  # then space and newline
    merged = ["he", "ll", "hell", "hello"]
    used = special + letters + merged
    unused = [f"<unused{i}>" for i in range(size - len(used))]
    kinds = ([TokenType.UNKNOWN] + [TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(letters) + len(merged))
             + [TokenType.UNUSED] * len(unused))
    return used + unused, ["h e", "l l", "he ll", "hell o"], kinds


def permute_halves(weight, heads):
    """Rotary pairs (i, i + d/2) of each head become neighbours (2i, 2i + 1). weight: [heads * d, ...]."""
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def unpermute_halves(weight, heads):
    """The inverse of permute_halves."""
    shape = weight.shape
    return weight.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def llama3_divisors(head_dim, theta, scaling):
    """[head_dim / 2] float32: what each rotary frequency is divided by (`rope_freqs.weight`)."""
    factor, low, high = (scaling[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    length = scaling["original_max_position_embeddings"]
    divisors = []
    for i in range(head_dim // 2):
        wavelength = 2 * math.pi * theta ** (2 * i / head_dim)
        if wavelength < length / high:
            divisors.append(1.0)
        elif wavelength > length / low:
            divisors.append(factor)
        else:
            smooth = (length / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def tiled_value_heads(config, name, value):
    """`value` of a recurrent layer of Qwen3.5 with its value heads in the file's order: first those that come first of
    every key head, then those that come second."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads

    def tiled(rows):
        split = rows.reshape(keys, values // keys, rows.shape[0] // values, *rows.shape[1:])
        return split.swapaxes(0, 1).reshape(rows.shape)

    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        first = 2 * keys * config.linear_key_head_dim
        return np.concatenate([value[:first], tiled(value[first:])])
    if name.endswith("out_proj.weight"):
        return tiled(value.T).T
    return value if name.endswith("linear_attn.norm.weight") else tiled(value)


def grouped_value_heads(config, name, value):
    """The inverse of tiled_value_heads."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    each, width = values // keys, config.linear_value_head_dim
    if name.endswith("linear_attn.norm.weight"):
        return value
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
        width = 1
    places = [(h % each * keys + h // each) * width + i for h in range(values) for i in range(width)]
    if name.endswith("out_proj.weight"):
        return value[:, places]
    first = value.shape[0] - len(places)
    return value[[*range(first), *(first + i for i in places)]]


def _to_gguf(config, name, value):
    """The array stored for the Hugging Face tensor `name`."""
    if name.endswith(("conv.conv.weight", "conv1d.weight")):
        value = value[:, 0]
    if name.endswith("A_log"):
        value = -np.exp(value)
    if ".linear_attn." in name:
        return tiled_value_heads(config, name, value) if config.model_type in TILED else value
    if config.model_type in CENTERED and name.endswith("norm.weight"):
        return value + 1
    if config.model_type in LLAMA and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        return permute_halves(value, heads)
    if config.model_type in GEMMA and name.endswith("norm.weight"):
        return value + 1
    if name.endswith(("shared_expert_gate.weight", "moe_statics.e_score_correction_bias")):  # as files have it
        return value[0]
    return value


def _experts(config):
    return getattr(config, "num_local_experts", None) or getattr(config, "num_experts", 0)


def _blocks(config):
    """Layers of the file: those that predict further tokens too."""
    return config.num_hidden_layers + (getattr(config, "num_mtp_layers", 0) or 0)


def _head_dim(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _stacked_experts(state, experts):
    """`state` with the experts of a layer in one tensor [experts, ...], as in a file."""
    out = {}
    for name, value in state.items():
        parts = name.split(".experts.0.")
        if len(parts) == 2:
            out[".experts.".join(parts)] = np.stack(
                [state[f".experts.{e}.".join(parts)] for e in range(experts)])
        elif ".experts." not in name:
            out[name] = value
    return out


def _split_gpt_oss(state):
    """`state` of gpt-oss as in a file: gates and ups, which take turns, in tensors of their own, outputs first."""
    out = {}
    for name, value in state.items():
        stem, _, bias = name.partition("_bias")
        stem += "." + ("bias" if bias or name.endswith("_bias") else "weight")
        if not name.removesuffix("_bias").endswith(("gate_up_proj", "down_proj")):
            out[name] = value
            continue
        by_output = value if value.ndim == 2 else value.swapaxes(1, 2)
        if "gate_up_proj" in name:
            out[stem.replace("gate_up_proj", "gate_proj")] = by_output[:, 0::2]
            out[stem.replace("gate_up_proj", "up_proj")] = by_output[:, 1::2]
        else:
            out[stem] = by_output
    return out


def _split_granite_moe(state):
    """`state` of Granite with experts as in a file: gates and ups, the first in their tensor, in tensors of their own."""
    out = {}
    for name, value in state.items():
        stem = name.replace("block_sparse_moe.", "mlp.experts.").replace("shared_mlp.", "mlp.shared_experts.")
        if ".router." in name:
            out[name.replace("block_sparse_moe.router.layer.", "mlp.gate.")] = value
        elif ".input_linear." in name:
            gates, ups = np.split(value, 2, axis=-2)
            out[stem.replace("input_linear", "gate_proj")] = gates
            out[stem.replace("input_linear", "up_proj")] = ups
        else:
            out[stem.replace("output_linear", "down_proj")] = value
    return out


def _split_qwen(config, state):
    """`state` of Qwen3-Next and of Qwen3.5 with experts as in a file: queries, keys and values, of all heads each, in
    one tensor and gates in another one; gates and ups of experts in tensors of their own."""
    out = {}
    for name, value in state.items():
        if name.endswith("experts.gate_up_proj"):
            gates, ups = np.split(value, 2, axis=1)
            out[name.replace("gate_up_proj", "gate_proj.weight")] = gates
            out[name.replace("gate_up_proj", "up_proj.weight")] = ups
        elif name.endswith("experts.down_proj"):
            out[name + ".weight"] = value
        elif ".in_proj_qkvz." in name:
            heads, key = config.linear_num_key_heads, config.linear_key_head_dim
            values = config.linear_num_value_heads // heads * config.linear_value_head_dim
            parts = np.split(value.reshape(heads, -1, value.shape[1]), [key, 2 * key, 2 * key + values], axis=1)
            *qkv, gates = [part.reshape(-1, value.shape[1]) for part in parts]
            out[name.replace("qkvz", "qkv")] = np.concatenate(qkv)
            out[name.replace("qkvz", "z")] = gates
        else:
            out[name] = value
    return _stacked_experts(out, config.num_experts) if config.model_type == "qwen3_next" else out


def _file_state(config, state):
    if config.model_type in ("qwen3_next", "qwen3_5_moe_text"):
        return _split_qwen(config, state)
    if config.model_type == "granitemoeshared":
        return _split_granite_moe(state)
    if config.model_type == "gpt_oss":
        return _split_gpt_oss(state)
    return _stacked_experts(state, _experts(config))


def _file_name(config, table, name):
    if name.endswith(".dt_bias"):
        return table.get_name(name.replace(".dt_bias", ".dt_proj")) + ".bias"
    if name.endswith(".e_score_correction_bias"):
        return table.get_name(name.removesuffix("_bias")) + ".bias"
    if name.endswith(".sinks"):
        return table.get_name(name) + ".weight"
    if name.endswith(".expert_bias"):
        return table.get_name(name) + ".bias"
    if ".feed_forward.experts." in name:
        name = name.removeprefix("model.")
    return table.get_name(name, try_suffixes=(".weight", ".bias"))


def _kind(config, stored, quantisation):
    """gpt-oss's files have experts in MXFP4, and other matrices as they were."""
    if config.model_type == "gpt_oss":
        return GGMLQuantizationType.MXFP4 if stored.ndim == 3 else GGMLQuantizationType.F32
    return quantisation if stored.ndim > 1 else GGMLQuantizationType.F32


def _add_experts(writer, config):
    writer.add_expert_count(_experts(config))
    writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type == "gpt_oss":
        writer.add_sliding_window(config.sliding_window)
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if hasattr(config, "moe_intermediate_size"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type in SHARED_GATE:
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if config.model_type == "granitemoeshared":
        writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    if config.model_type == "ernie4_5_moe":
        writer.add_interleave_moe_layer_step(config.moe_layer_interval)
        writer.add_leading_dense_block_count(config.moe_layer_start_index)
        writer.add_expert_shared_count(config.moe_num_shared_experts)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.moe_num_shared_experts)
    if config.model_type == "lfm2_moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)  # published models have 1, which is left out
    if config.model_type == "glm4_moe":
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_nextn_predict_layers(config.num_mtp_layers)
        if config.n_group > 1:
            writer.add_expert_group_count(config.n_group)
            writer.add_expert_group_used_count(config.topk_group)


def _add_metadata(writer, config, published):
    """`published` is config.json as a dict: a key that it lacks is left out here too, so defaults are tested."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(_blocks(config))
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("lfm2", "lfm2_moe"):
        _add_lfm2(writer, config, published)
    else:
        if config.model_type != "qwen3_5_moe_text":
            writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if "head_dim" in published:
        writer.add_key_length(published["head_dim"])
        writer.add_value_length(published["head_dim"])
    if config.model_type == "gemma3_text":
        _add_gemma3_metadata(writer, config, published)
        return
    _add_family(writer, config)
    if hasattr(config, "num_experts_per_tok"):
        _add_experts(writer, config)
    rope = config.rope_parameters.get("full_attention") or config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if config.model_type in LLAMA:
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(_head_dim(config))
    if rope["rope_type"] == "yarn":
        _add_yarn(writer, rope)


def _add_lfm2(writer, config, published):
    heads = config.num_key_value_heads
    writer.add_head_count_kv([heads if kind == "full_attention" else 0 for kind in config.layer_types])
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_shortconv_l_cache(config.conv_L_cache)
    writer.add_vocab_size(config.vocab_size)
    if config.model_type == "lfm2_moe":
        writer.add_feed_forward_length(config.intermediate_size)
        return
    multiple = published["block_multiple_of"]
    width = int(published["block_ffn_dim_multiplier"] * int(2 * published["block_ff_dim"] / 3))
    writer.add_feed_forward_length((width + multiple - 1) // multiple * multiple)


def _add_qwen35(writer, config):
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
    writer.add_full_attention_interval(config.layer_types.index("full_attention") + 1)
    rope = config.rope_parameters
    writer.add_rope_dimension_count(int(_head_dim(config) * rope["partial_rotary_factor"]))
    if config.model_type != "qwen3_next":
        writer.add_rope_dimension_sections([*rope.get("mrope_section", [11, 11, 10]), 0])


def _add_family(writer, config):
    """What single families have, as the converters of llama.cpp's conversion/ write it."""
    kind = config.model_type
    if kind in ("granite", "granitemoeshared"):
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    elif kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        writer.add_sliding_window(config.sliding_window)
    elif kind == "olmo3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([t == "sliding_attention" for t in config.layer_types])
    elif kind in ("phi3", "glm4", "glm4_moe"):
        part = config.rope_parameters.get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(_head_dim(config) * part))
    elif kind in CENTERED:
        _add_qwen35(writer, config)
    if kind != "phi3":
        return
    rope = config.rope_parameters
    writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    writer.add_sliding_window(config.sliding_window or 0)
    if rope["rope_type"] == "longrope":
        scale = config.max_position_embeddings / config.original_max_position_embeddings
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(config.original_max_position_embeddings)))


def _add_yarn(writer, rope):
    """As convert_hf_to_gguf.py writes it."""
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    for key, add in (("attention_factor", writer.add_rope_scaling_yarn_attn_factor),
                     ("beta_fast", writer.add_rope_scaling_yarn_beta_fast),
                     ("beta_slow", writer.add_rope_scaling_yarn_beta_slow)):
        if rope.get(key) is not None:
            add(rope[key])


def _add_gemma3_metadata(writer, config, published):
    full, local = config.rope_parameters["full_attention"], config.rope_parameters["sliding_attention"]
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_attention_scale(config.query_pre_attn_scalar**-0.5)
    writer.add_sliding_window(config.sliding_window)
    if full["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if local["rope_theta"] != 10000.0:
        writer.add_rope_freq_base_swa(local["rope_theta"])
    if "layer_types" in published:
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def write_gguf(path, config, published, state, quantisation=GGMLQuantizationType.F32):
    """Writes `state` (name -> float32 array); matrices are stored as `quantisation`, vectors as F32."""
    arch, names = ARCHITECTURES[config.model_type]
    writer = GGUFWriter(path, arch)
    writer.add_name(f"tiny {arch}")
    _add_metadata(writer, config, published)
    tokens, merges, kinds = tiny_vocabulary(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    table = get_tensor_name_map(names, _blocks(config))
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        head_dim = config.hidden_size // config.num_attention_heads
        writer.add_tensor("rope_freqs.weight", llama3_divisors(head_dim, rope["rope_theta"], rope))
    if rope.get("rope_type") == "longrope":
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], dtype=np.float32))
    for name, value in _file_state(config, state).items():
        stored = np.ascontiguousarray(_to_gguf(config, name, value), dtype=np.float32)
        kind = _kind(config, stored, quantisation)
        data = stored if kind == GGMLQuantizationType.F32 else quants.quantize(stored, kind)
        writer.add_tensor(_file_name(config, table, name), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_gguf(path, config, state):
    """Asserts that the file holds exactly `state`, read back through the reader and a second set of formulas."""
    table = get_tensor_name_map(ARCHITECTURES[config.model_type][1], _blocks(config))
    stored = {t.name: quants.dequantize(t.data, t.tensor_type) for t in GGUFReader(path).tensors}
    for factors in ("rope_freqs", "rope_factors_long", "rope_factors_short"):
        stored.pop(f"{factors}.weight", None)
    for name, value in _file_state(config, state).items():
        got = stored.pop(_file_name(config, table, name))
        if name.endswith(("shared_expert_gate.weight", "moe_statics.e_score_correction_bias")):
            got = got[None]
        centered = config.model_type in CENTERED and name.endswith("norm.weight") and ".linear_attn." not in name
        if (config.model_type in GEMMA and got.ndim == 1) or centered:
            assert np.allclose(got - 1, value, rtol=0, atol=2e-7), name
            continue
        if config.model_type in LLAMA and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            got = unpermute_halves(got, heads)
        if ".linear_attn." in name and config.model_type in TILED:
            got = grouped_value_heads(config, name, got)
        if name.endswith("A_log"):
            assert np.allclose(np.log(-got), value, rtol=0, atol=1e-6), name
            continue
        if name.endswith(("conv.conv.weight", "conv1d.weight")):
            got = got[:, None]
        assert np.array_equal(got, value), name
    assert not stored, f"{path}: unexpected {sorted(stored)}"
