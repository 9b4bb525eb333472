#!/usr/bin/env python3
"""Makes tests/data/tiny/<family>/: tiny random models of each architecture, and what transformers computes with them.

usage: make_tiny_models.py [FAMILY ...]      (run with tools/requirements.txt installed; offline)

Each folder holds config.json and model*.safetensors as on a model hub, tokenizer.json, model.gguf with the same
weights (mistral has none), and expected.safetensors, all float32:
  tokens_S [n]            token ids of sequence S = 0 (n = 40) and 1 (n = 23)
  logits_S [n, vocab]     eager attention
  hidden_L_0 [n, hidden]  what leaves block L = 0, 1 for sequence 0 (residual stream, before the final norm)
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (AutoConfig, AutoModelForCausalLM, Gemma3ForConditionalGeneration,
                          Qwen3_5ForConditionalGeneration)
from transformers.utils import logging

import tiny_gguf

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tiny"
LENGTHS = (40, 23)

COMMON = {"bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 256, "use_cache": True}
LLAMA = COMMON | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                  "attention_bias": False, "mlp_bias": False, "rms_norm_eps": 1e-5}
GEMMA3 = COMMON | {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 32,
                   "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                   "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 24, "sliding_window": 8,
                   "rms_norm_eps": 1e-6, "vocab_size": 160, "attention_bias": False, "eos_token_id": [2, 106]}
MISTRAL = COMMON | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu",
                    "rms_norm_eps": 1e-5, "hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 160, "tie_word_embeddings": False,
                    "torch_dtype": "float32"}
GPT_OSS = COMMON | {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", "hidden_size": 64,
                    "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 160, "tie_word_embeddings": False,
                    "rms_norm_eps": 1e-5, "attention_bias": True, "sliding_window": 8, "swiglu_limit": 7.0,
                    "rope_theta": 150000, "max_position_embeddings": 64,
                    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                                     "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False}}

PHI3 = COMMON | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu", "hidden_size": 64,
                 "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
                 "rms_norm_eps": 1e-5, "torch_dtype": "float32", "pad_token_id": 2}
OLMO = COMMON | {"hidden_act": "silu", "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "vocab_size": 160, "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
                 "torch_dtype": "float32", "pad_token_id": 2, "attention_bias": False}

GLM4_MOE = COMMON | {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_act": "silu", "hidden_size": 64,
                     "intermediate_size": 96, "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
                     "norm_topk_prob": True, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
                     "vocab_size": 160, "tie_word_embeddings": False, "torch_dtype": "float32", "rms_norm_eps": 1e-5,
                     "attention_bias": True, "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "pad_token_id": 2}

QWEN3_NEXT = COMMON | {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "vocab_size": 160, "rms_norm_eps": 1e-6,
    "attention_bias": False, "tie_word_embeddings": False, "torch_dtype": "float32", "rope_theta": 10000.0,
    "partial_rotary_factor": 0.25, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 64, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [0], "layer_types": ["linear_attention", "full_attention", "linear_attention"]}

# config.json by family; half in the form that hub models have had for years, half in the newer `rope_parameters` form.
FAMILIES = {
    "llama": LLAMA | {
        "hidden_size": 64, "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 160, "tie_word_embeddings": False, "torch_dtype": "float32",
        "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32}},
    "llama_plain": LLAMA | {
        "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "vocab_size": 176, "tie_word_embeddings": True, "dtype": "float32",
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}},
    "qwen2": COMMON | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 48,
        "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
        "vocab_size": 160, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6, "use_sliding_window": False, "sliding_window": 4, "max_window_layers": 2},
    "qwen3": COMMON | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 160, "tie_word_embeddings": False, "dtype": "float32", "rms_norm_eps": 1e-6,
        "attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
    "gemma3": GEMMA3 | {
        "num_hidden_layers": 6, "torch_dtype": "float32", "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "rope_scaling": None, "sliding_window_pattern": 6, "attn_logit_softcapping": None,
        "final_logit_softcapping": None},
    "gemma3_softcap": GEMMA3 | {
        "num_hidden_layers": 4, "dtype": "float32", "attn_logit_softcapping": None, "final_logit_softcapping": 5.0,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}},
    "mistral": MISTRAL | {"num_hidden_layers": 2, "sliding_window": 8, "rope_theta": 10000.0},
    "mistral_yarn": MISTRAL | {
        "num_hidden_layers": 3, "sliding_window": None, "rope_theta": 10000.0, "max_position_embeddings": 64,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                         "attention_factor": 0.8, "beta_fast": 4.0, "beta_slow": 0.5}},
    "qwen3_moe": COMMON | {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 96, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 3,
        "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 160,
        "tie_word_embeddings": False, "torch_dtype": "float32", "rms_norm_eps": 1e-6, "attention_bias": False,
        "rope_theta": 1000000.0, "rope_scaling": None, "sliding_window": None, "use_sliding_window": False},
    "mixtral": COMMON | {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "tie_word_embeddings": False,
        "torch_dtype": "float32", "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": None},
    "gemma3_pictures": {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "float32",
        "eos_token_id": [2, 106], "mm_tokens_per_image": 4, "image_token_index": 262144,
        "text_config": {"model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6,
                        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 160,
                        "sliding_window": 8, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16,
                          "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14,
                          "vision_use_head": False}},
    "smollm3": COMMON | {
        "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "hidden_act": "silu", "hidden_size": 64,
        "pad_token_id": 2,
        "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 160, "tie_word_embeddings": True, "torch_dtype": "float32", "rms_norm_eps": 1e-6,
        "attention_bias": False, "mlp_bias": False, "rope_theta": 5000000.0, "rope_scaling": None,
        "no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4, "layer_types": ["full_attention"] * 4,
        "sliding_window": None, "use_sliding_window": False},
    "gemma2": COMMON | {
        "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "sliding_window": 8,
        "rms_norm_eps": 1e-6, "vocab_size": 160, "attention_bias": False, "rope_theta": 10000.0,
        "attn_logit_softcapping": 4.0, "final_logit_softcapping": 5.0, "torch_dtype": "float32"},
    "phi3": PHI3 | {
        "num_hidden_layers": 3, "tie_word_embeddings": True, "sliding_window": 262144, "rope_theta": 10000.0,
        "original_max_position_embeddings": 16, "partial_rotary_factor": 0.75,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
                         "long_factor": [1.0, 1.5, 2.5, 4.0, 8.0, 12.0]}},
    "phi3_window": PHI3 | {
        "num_hidden_layers": 2, "tie_word_embeddings": False, "sliding_window": 8, "rope_theta": 10000.0,
        "original_max_position_embeddings": 256, "rope_scaling": None},
    "granite": COMMON | {
        "architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 160, "tie_word_embeddings": True, "torch_dtype": "float32", "rms_norm_eps": 1e-5,
        "attention_bias": False, "mlp_bias": False, "rope_theta": 10000.0, "rope_scaling": None,
        "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.125,
        "logits_scaling": 2.0},
    "olmo2": OLMO | {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "num_hidden_layers": 2,
                     "rope_theta": 500000.0},
    "olmo3": OLMO | {
        "architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "num_hidden_layers": 4, "rope_theta": 500000.0,
        "sliding_window": 8, "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                         "attention_factor": 1.2, "beta_fast": 32.0, "beta_slow": 1.0}},
    "glm4": COMMON | {
        "architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "hidden_act": "silu", "hidden_size": 48,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 160, "tie_word_embeddings": False, "torch_dtype": "float32", "pad_token_id": 2,
        "rms_norm_eps": 1e-5, "attention_bias": True, "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    "qwen2_moe": COMMON | {
        "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 96, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 96, "num_experts": 6,
        "num_experts_per_tok": 2, "norm_topk_prob": False, "decoder_sparse_step": 1, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "tie_word_embeddings": False,
        "torch_dtype": "float32", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 32768,
        "use_sliding_window": False, "max_window_layers": 2},
    "olmoe": COMMON | {
        "architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": False, "clip_qkv": None,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 160,
        "tie_word_embeddings": False, "torch_dtype": "float32", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "rope_scaling": None, "attention_bias": False, "pad_token_id": 2},
    "glm4_moe": GLM4_MOE | {
        "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
        "routed_scaling_factor": 1.5, "use_qk_norm": False, "n_routed_experts": 5, "num_nextn_predict_layers": 1},
    "glm4_moe_groups": GLM4_MOE | {
        "num_hidden_layers": 2, "first_k_dense_replace": 0, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
        "routed_scaling_factor": 1.0, "num_experts_per_tok": 3, "use_qk_norm": True, "num_nextn_predict_layers": 0},
    "granite_moe": COMMON | {
        "architectures": ["GraniteMoeSharedForCausalLM"], "model_type": "granitemoeshared", "hidden_act": "silu",
        "hidden_size": 64, "intermediate_size": 32, "shared_intermediate_size": 96, "num_local_experts": 6,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 160, "tie_word_embeddings": True, "torch_dtype": "float32", "rms_norm_eps": 1e-6,
        "attention_bias": False, "rope_theta": 10000.0, "rope_scaling": None, "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22, "attention_multiplier": 0.125, "logits_scaling": 2.0},
    "ernie": COMMON | {
        "architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe", "hidden_act": "silu",
        "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "moe_num_experts": 5, "moe_k": 2,
        "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 1, "moe_layer_interval": 1,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 160,
        "tie_word_embeddings": True, "torch_dtype": "float32", "rms_norm_eps": 1e-5, "use_bias": False,
        "rope_theta": 500000.0, "pad_token_id": 0},
    "lfm2": COMMON | {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "hidden_size": 64, "block_dim": 64,
        "block_ff_dim": 132, "block_auto_adjust_ff_dim": True, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0,
        "conv_L_cache": 3, "conv_bias": False, "full_attn_idxs": [1, 3], "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "tie_embedding": True,
        "torch_dtype": "float32", "norm_eps": 1e-5, "rope_theta": 1000000.0, "pad_token_id": 0},
    "qwen3_5": {
        "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "torch_dtype": "float32",
        "image_token_id": 150, "tie_word_embeddings": False,
        "text_config": COMMON | {
            "model_type": "qwen3_5_text", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 4, "full_attention_interval": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 32, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
            "linear_key_head_dim": 16, "linear_value_head_dim": 32, "vocab_size": 160, "rms_norm_eps": 1e-6,
            "attention_bias": False, "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
                "mrope_section": [2, 1, 1]}},
        "vision_config": {"model_type": "qwen3_5_vision", "hidden_size": 16, "intermediate_size": 16, "depth": 1,
                          "num_heads": 2, "out_hidden_size": 64, "num_position_embeddings": 16}},
    "lfm2_moe": COMMON | {
        "architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "hidden_size": 64, "intermediate_size": 96,
        "moe_intermediate_size": 32, "num_experts": 6, "num_experts_per_tok": 2, "num_dense_layers": 1,
        "norm_topk_prob": True, "use_expert_bias": True, "routed_scaling_factor": 1.5, "conv_L_cache": 3,
        "conv_bias": False, "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160, "tie_embedding": True,
        "torch_dtype": "float32", "norm_eps": 1e-5, "rope_theta": 1000000.0, "pad_token_id": 0},
    "qwen3_next": QWEN3_NEXT,
    "qwen3_5_moe": COMMON | {
        "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "hidden_act": "silu",
        "hidden_size": 64, "num_hidden_layers": 2, "full_attention_interval": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 1,
        "linear_num_value_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "vocab_size": 160,
        "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": False, "torch_dtype": "float32",
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}},
    "gpt_oss": GPT_OSS | {"num_hidden_layers": 2, "torch_dtype": "float32"},
    "gpt_oss_mxfp4": GPT_OSS | {
        "num_hidden_layers": 2, "torch_dtype": "float32",
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}},
    # llama.cpp's converter has no names for the layer without experts of the other one.
    "qwen3_next_experts": QWEN3_NEXT | {
        "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"], "mlp_only_layers": [],
        "num_experts": 4, "linear_num_value_heads": 6},
}


# Of models whose rows are clear about their experts, so that the rounding of int8 chooses no others.
SEEDS = {"gpt_oss": 1011, "gpt_oss_mxfp4": 1012, "qwen2_moe": 1026, "olmoe": 1020, "glm4_moe": 1025,
         "glm4_moe_groups": 1023, "granite_moe": 1020, "ernie": 1021, "qwen3_next": 1022, "qwen3_5_moe": 1022,
         "qwen3_next_experts": 1020}
EXPERTS = ("qwen3_moe", "mixtral", "qwen2_moe", "olmoe", "glm4_moe", "glm4_moe_groups", "granite_moe", "ernie", "lfm2_moe",
           "qwen3_next", "qwen3_next_experts")
STORED = {"qwen3": GGMLQuantizationType.Q8_0, "phi3_window": GGMLQuantizationType.Q4_0}  # else F32
CENTERED = ("qwen3_5", "qwen3_next", "qwen3_next_experts", "qwen3_5_moe")  # Qwen's norms that multiply by 1 + weight
# Smaller weights: rounding must not grow from layer to layer.
DEEPER = ("smollm3", "lfm2", "qwen3_5", "qwen3_next", "qwen3_next_experts", "qwen3_5_moe", "olmo3", "phi3", "glm4_moe")


def mxfp4_blocks(weight):
    """[experts, outputs, groups, 17] uint8: GGML's blocks of a weight [experts, inputs, outputs]."""
    rows = np.ascontiguousarray(weight.detach().numpy().transpose(0, 2, 1))
    return quants.quantize(rows, GGMLQuantizationType.MXFP4).reshape(*rows.shape[:2], -1, 17)


def mxfp4_values(blocks):
    """[experts, outputs, inputs] float32."""
    return quants.dequantize(blocks.reshape(*blocks.shape[:2], -1), GGMLQuantizationType.MXFP4)


def in_mxfp4(state):
    """The weights as the published files hold them: neighbouring numbers share a byte, scales have tensors of their own."""
    out = {}
    for name, value in state.items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            out[name] = value
            continue
        blocks = mxfp4_blocks(value)
        low, high = blocks[..., 1:] & 15, blocks[..., 1:] >> 4
        codes = np.concatenate([low, high], -1)
        out[name + "_blocks"] = torch.from_numpy(codes[..., 0::2] | codes[..., 1::2] << 4)
        out[name + "_scales"] = torch.from_numpy(np.ascontiguousarray(blocks[..., 0]))
    return out


def randomise(model, family):
    """Weights large enough that every part matters: a swapped head or a missing bias moves logits by whole units."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape)
            if name.endswith("norm.weight"):  # Gemma's norms multiply by 1 + weight, and Qwen3.5's, but for one
                centered = family.startswith("gemma") or (family in CENTERED and "linear_attn" not in name)
                p.copy_(0.3 * noise + (0.0 if centered else 1.0))
            elif name.endswith("A_log"):
                p.copy_(noise - 1.0)
            elif name.endswith(("conv.weight", "conv1d.weight")):
                p.copy_(0.6 * noise)
            elif name.endswith("bias"):
                p.copy_(0.5 * noise)
            else:
                wide = family.startswith("gpt_oss") and name.endswith("gate_up_proj")  # so that gates reach their limit
                p.copy_((0.4 if wide else 0.18 if family in DEEPER else 0.25) * noise)
            if family.startswith("gpt_oss") and name.endswith(("gate_up_proj", "down_proj")):
                p.copy_(torch.from_numpy(mxfp4_values(mxfp4_blocks(p))).transpose(1, 2))
            if family == "qwen2":  # stored as bfloat16
                p.copy_(p.to(torch.bfloat16).float())
            if family.startswith("glm4_moe") and name.endswith("mlp.gate.weight"):
                p.mul_(0.5)  # sigmoids far from 0 and 1 differ
            if family in STORED and p.ndim > 1:  # keep what model.gguf can hold, so that both agree
                rounded = quants.quantize(p.numpy(), STORED[family])
                p.copy_(torch.from_numpy(quants.dequantize(rounded, STORED[family])))
        for name, b in [*model.named_buffers(), *model.named_parameters()]:
            if name.endswith(("e_score_correction_bias", "expert_bias")):  # as large as differences of scores
                b.copy_(0.08 * torch.randn(b.shape))


def hub_state(model):
    """The weights by their names on the hub: transformers holds all experts of a layer in one tensor."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(pathlib.Path(folder) / "model.safetensors")


def save_weights(folder, model, family):
    """model.safetensors, or two shards and their index; a tied head is left out, as on the hub."""
    if family in EXPERTS:
        state = hub_state(model)
        if family == "glm4_moe":  # a layer that predicts further tokens, which readers leave out
            state |= {k.replace("layers.1.", "layers.3."): torch.full_like(v, 7.0) for k, v in state.items()
                      if "layers.1." in k and ".experts." not in k}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return state
    dtype = torch.bfloat16 if family == "qwen2" else torch.float32
    state = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
             if not (k == "lm_head.weight" and model.config.tie_word_embeddings)}
    if family == "gpt_oss_mxfp4":
        save_file(in_mxfp4(state), folder / "model.safetensors", metadata={"format": "pt"})
        return state
    if family == "gemma3_pictures":  # the names of the published files
        save_file({k.replace("model.language_model.", "language_model.model.", 1).removeprefix(
            "" if ".language_model." in k else "model."): v for k, v in state.items()},
            folder / "model.safetensors", metadata={"format": "pt"})
        return {k.replace(".language_model", "", 1): v for k, v in state.items() if ".language_model." in k}
    if family == "qwen3_5":
        state = {k: v for k, v in state.items() if "visual" not in k or v.numel() < 300}  # some of the others' names
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return {k.replace(".language_model", "", 1): v for k, v in state.items() if "visual" not in k}
    if family != "llama":
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        return state
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    shard_of = {k: names[k.startswith(("model.layers.1.", "model.norm.", "lm_head."))] for k in state}
    for shard in names:
        save_file({k: v for k, v in state.items() if shard_of[k] == shard}, folder / shard, metadata={"format": "pt"})
    total = sum(v.numel() * v.element_size() for v in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(shard_of.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return state


def save_tokenizer(folder, vocab_size):
    """tokenizer.json with the vocabulary that model.gguf has."""
    tokens, merges, _ = tiny_gguf.tiny_vocabulary(vocab_size)
    bpe = models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split()) for m in merges])
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(tokens[:3])
    tokenizer.save(str(folder / "tokenizer.json"))


def run(model, tokens):
    """(logits [n, vocab], outputs of block 0 and 1 [n, hidden]) of one sequence, from nothing cached."""
    kept = {}
    layers = getattr(model.model, "language_model", model.model).layers
    hooks = [layers[i].register_forward_hook(
        lambda _m, _a, out, i=i: kept.__setitem__(i, out[0] if isinstance(out, tuple) else out)) for i in (0, 1)]
    with torch.no_grad():
        logits = model(tokens[None], use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return logits, kept[0].reshape(len(tokens), -1), kept[1].reshape(len(tokens), -1)


def make(family, seed):
    folder, published = ROOT / family, FAMILIES[family]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(published, indent=2, sort_keys=True) + "\n")
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    pictures = "vision_config" in published
    kind_of = {"gemma3_pictures": Gemma3ForConditionalGeneration,
               "qwen3_5": Qwen3_5ForConditionalGeneration}.get(family, AutoModelForCausalLM)
    model = (kind_of._from_config if pictures else kind_of.from_config)(config, dtype=torch.float32).eval()
    randomise(model, family)
    state = save_weights(folder, model, family)
    text = config.get_text_config()
    save_tokenizer(folder, text.vocab_size)
    loaded = kind_of.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    expected = {}
    for s, length in enumerate(LENGTHS):
        tokens = torch.randint(0, text.vocab_size, (length,))
        logits, hidden_0, hidden_1 = run(loaded, tokens)
        assert torch.equal(logits, run(model, tokens)[0]), f"{family}: the saved folder computes something else"
        expected |= {f"tokens_{s}": tokens.float(), f"logits_{s}": logits.contiguous()}
        if s == 0:
            expected |= {"hidden_0_0": hidden_0.contiguous(), "hidden_1_0": hidden_1.contiguous()}
    save_file(expected, folder / "expected.safetensors")
    arrays = {k: v.float().numpy() for k, v in state.items()}
    kind = STORED.get(family, GGMLQuantizationType.F32)
    if family not in ("mistral", "qwen3_next"):  # llama.cpp's files know no window, and no layer without experts
        tiny_gguf.write_gguf(folder / "model.gguf", text, published.get("text_config", published), arrays, kind)
        tiny_gguf.check_gguf(folder / "model.gguf", text, arrays)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes 0600
    size = sum(f.stat().st_size for f in folder.iterdir())
    spread = float(np.std(expected["logits_0"].numpy()))
    print(f"{family}: {size / 1e3:.0f} kB, standard deviation of the logits {spread:.2f}")


if __name__ == "__main__":
    logging.disable_progress_bar()
    for number, name in enumerate(FAMILIES):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, SEEDS.get(name, 1000 + number))
