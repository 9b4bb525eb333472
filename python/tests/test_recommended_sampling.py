"""What a model's publisher recommends, as options."""

import json
import shutil

import pytest

import forerun
from conftest import LLAMA, PROMPT


def test_recommended_sampling_is_options(tmp_path, model):
    assert model.recommended_sampling == {}
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(LLAMA / name, tmp_path)
    said = {"temperature": 0.6, "top_k": 5, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.05}
    (tmp_path / "generation_config.json").write_text(json.dumps({"do_sample": True, "eos_token_id": [2, 3], **said}))
    other = forerun.Model(tmp_path, "f32")
    assert other.recommended_sampling == said
    taken = forerun.generate(other, PROMPT, max_tokens=30, ignore_end=True, **other.recommended_sampling)
    assert taken.tokens == forerun.generate(model, PROMPT, max_tokens=30, ignore_end=True, **said).tokens
    greedy = forerun.generate(model, PROMPT, max_tokens=30, ignore_end=True)
    assert forerun.generate(other, PROMPT, max_tokens=30, ignore_end=True).tokens == greedy.tokens
    (tmp_path / "generation_config.json").write_text('{"top_p": 7}')
    with pytest.raises(forerun.FormatError, match="top_p holds 7, expected 0 to 1"):
        other.recommended_sampling
