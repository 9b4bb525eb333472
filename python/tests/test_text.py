import os
import shutil
import signal
import threading

import numpy as np
import pytest

import forerun
from conftest import LLAMA, PROMPT, read_safetensors, ticks_during

DRAFTED = {"fixed_draft": True, "max_draft": 5}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("drafter", ["lookup", "auto", "sam"])
def test_text_is_that_of_plain_decoding(model, drafter, temperature):
    options = {"max_tokens": 80, "temperature": temperature, "seed": 3, **DRAFTED}
    plain = forerun.generate(model, PROMPT, None, **options)
    drafted = forerun.generate(model, PROMPT, drafter, **options)
    assert drafted.tokens == plain.tokens and drafted.text == plain.text and str(drafted) == plain.text
    assert plain.statistics.tau == 1.0 and drafted.statistics.drafted > 0
    assert drafted.statistics.kept == sum(drafted.statistics.accepted)
    assert drafted.exact and drafted.rule == "shared-noise"


def test_bias_and_penalties_are_part_of_the_law(model):
    options = forerun.GenerateOptions(max_tokens=60, temperature=0.8, logit_bias={20: 2.0, 21: -100.0},
                                      presence_penalty=0.5, repetition_penalty=1.2, **DRAFTED)
    assert options.logit_bias == {20: 2.0, 21: -100.0}
    plain = forerun.generate(model, PROMPT, None, options=options)
    assert forerun.generate(model, PROMPT, "auto", options=options).tokens == plain.tokens
    assert 21 not in plain.tokens
    assert forerun.certify(model, PROMPT, "lookup", tokens=60, options=options).passed


def test_pieces_make_up_the_text(model):
    pieces = []
    out = forerun.generate(model, PROMPT, "lookup", max_tokens=40, on_text=pieces.append)
    assert "".join(pieces) == out.text and len(pieces) > 1


def test_a_callback_that_raises_ends_the_text(model):
    seen = []

    def stop(piece):
        seen.append(piece)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        forerun.generate(model, PROMPT, None, max_tokens=200, ignore_end=True, on_text=stop)
    assert len(seen) == 1


def test_interrupt_ends_a_run(dit):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            forerun.generate_images(dit, [0] * 100_000)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_run_meanwhile(model):
    assert ticks_during(lambda: forerun.generate_batch(model, [PROMPT] * 8, None, max_tokens=200, ignore_end=True)) > 1


def test_a_batch_is_its_texts(model):
    prompts = [PROMPT, "1 2 3", model.encode("b c")]
    options = forerun.GenerateOptions(max_tokens=40, temperature=0.7, seed=5)
    batch = forerun.generate_batch(model, prompts, "lookup", options=options)
    for i, prompt in enumerate(prompts):
        options.request = i
        assert batch[i].tokens == forerun.generate(model, prompt, None, options=options).tokens


def test_trace_tells_the_rounds(model):
    out = forerun.generate(model, PROMPT, "lookup", max_tokens=40, trace=True, **DRAFTED)
    assert [t for r in out.rounds for t in r.outputs] == out.tokens
    assert sum(len(r.kept) for r in out.rounds) == out.statistics.kept


def test_certificates(model):
    found = forerun.certify(model, [PROMPT, "1 2 3"], "lookup", tokens=100, per_prompt=50)
    assert found.passed and found.deterministic and found.verdict.startswith("identical")
    law = forerun.certify(model, PROMPT, f"draft-model:{LLAMA}", tokens=300, per_prompt=150, temperature=1.0,
                          rule="maximal", **DRAFTED)
    assert law.passed and law.report.drafted > 100 and abs(law.report.z) < 4


def test_logits_are_those_of_the_reference(model):
    tokens = read_safetensors(LLAMA / "expected.safetensors", "tokens_0").astype(int).tolist()
    logits = model.logits(tokens)
    assert logits.dtype == np.float32 and logits.shape == (len(tokens), model.vocab)
    np.testing.assert_allclose(logits, read_safetensors(LLAMA / "expected.safetensors", "logits_0"), atol=2e-4)
    wide = logits.astype(np.float64)
    expected = wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)
    scores = model.score(tokens, top=2)
    assert [s.token for s in scores] == tokens[1:]
    np.testing.assert_allclose([s.log_probability for s in scores], expected[range(len(tokens) - 1), tokens[1:]],
                               atol=1e-4)
    assert all(s.top[0][0] == int(expected[i].argmax()) for i, s in enumerate(scores))


def test_tokens_and_bytes(model):
    tokens = model.encode("a b c")
    assert model.decode(tokens).endswith("a b c")
    assert b"".join(model.piece(t) for t in tokens).decode().endswith("a b c")


def test_conversations(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(LLAMA / name, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    model = forerun.Model(str(tmp_path), "f32")
    prompt = model.encode_chat([("user", "b c")])
    assert model.decode(prompt) == model.decode(model.encode("<|im_start|>user\nb c<|im_end|>\n<|im_start|>assistant\n"))
    answer = forerun.generate(model, [{"role": "user", "content": "b c"}], "lookup", max_tokens=20)
    assert answer.tokens == forerun.generate(model, prompt, None, max_tokens=20).tokens
    assert model.decode(model.encode_chat([("user", "b")], add_generation_prompt=False)).endswith("b<|im_end|>\n")


def test_conversations_with_tools(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(LLAMA / name, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(
        "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{{ mood }}"
        "{% for message in messages %} {{ message.role }} {{ message.content }}"
        "{% for call in message.tool_calls or [] %} calls {{ call.function.name }} {{ call.function.arguments.a }}{% endfor %}"
        "{% endfor %}")
    model = forerun.Model(str(tmp_path), "f32")
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 7}}}
    turns = [{"role": "user", "content": "b c"}, {"role": "assistant", "content": None, "tool_calls": [call]}, ("tool", "8")]
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    said = model.decode(model.encode_chat(turns, tools, {"mood": "calm"}))
    assert said.endswith("add calm user b c assistant  calls add 7 tool 8")
    assert model.decode(model.encode_chat(turns[:1])).endswith("user b c")


@pytest.mark.parametrize("prompt", [b"a b", bytearray(b"a b"), {"role": "user", "content": "a"}])
def test_what_is_no_prompt_is_refused(model, prompt):
    with pytest.raises(TypeError, match="a prompt is a str"):
        forerun.generate(model, prompt, None, max_tokens=2)
    with pytest.raises(TypeError, match="a prompt is a str"):
        forerun.generate_batch(model, prompt, None, max_tokens=2)
    with pytest.raises(TypeError, match="a prompt is a str"):
        forerun.certify(model, prompt, None, tokens=2)


def test_a_batch_of_one_str_is_refused(model):
    with pytest.raises(TypeError, match="put a str into a list"):
        forerun.generate_batch(model, PROMPT, None, max_tokens=2)


def test_tokens_are_integers_of_any_kind(model):
    tokens = model.encode(PROMPT)
    alone = forerun.generate(model, tokens, None, max_tokens=4).tokens
    for integers in (np.array(tokens), np.array(tokens, np.uint16)):
        assert forerun.generate(model, integers, None, max_tokens=4).tokens == alone
        assert forerun.certify(model, integers, "lookup", tokens=4).outputs == 4
    for wrong in (["5", "6"], [5.0, 6.0], np.array([5.0, 6.0])):
        with pytest.raises(TypeError):
            forerun.generate(model, wrong, None, max_tokens=4)


@pytest.mark.parametrize("turn", ["user", ("user",), ("user", 3), {"content": "b"}, {"role": "user", "content": 3}, 3])
def test_what_is_no_turn_is_refused(model, turn):
    with pytest.raises(TypeError, match="a turn is"):
        model.encode_chat([turn])


def test_options_take_integers_of_any_kind():
    options = forerun.GenerateOptions(max_tokens=np.int64(5), seed=np.uint64(2**64 - 1), logit_bias={np.int32(7): 1})
    assert (options.max_tokens, options.seed, options.logit_bias) == (5, 2**64 - 1, {7: 1.0})


@pytest.mark.parametrize("fields, message", [
    ({"max_token": 3}, r"no option 'max_token'; did you mean max_tokens\? There are temperature, "),
    ({"max_tokens": -1}, "max_tokens: -1 is no int from 0 on"),
    ({"max_tokens": 2**32}, "max_tokens: 4294967296 is too large; at most 4294967295"),
    ({"seed": 2**64}, "seed: 18446744073709551616 is too large; at most 18446744073709551615"),
    ({"max_tokens": "5"}, "max_tokens: '5' is no int from 0 on"),
    ({"max_tokens": 5.0}, "max_tokens: 5.0 is no int from 0 on"),
    ({"max_tokens": np.array([1.5])}, r"max_tokens: array\(\[1.5\]\) is no int from 0 on"),
    ({"fixed_draft": 1}, "fixed_draft: 1 is no bool$"),
    ({"logit_bias": {"5": 1.0}}, r"logit_bias: \{'5': 1.0\} is no Mapping\[int, float\]"),
    ({"temperature": "hot"}, "temperature: 'hot' is no float"),
    ({"stop": 3}, r"stop: 3 is no str \| Sequence\[str\]"),
    ({"rule": "luck"}, "rule: no rule 'luck'. Of texts: maximal, "),
    ({"logit_bias": [1]}, r"logit_bias: \[1\] is no Mapping\[int, float\]"),
    ({"logit_bias": {10**6: 1.0}}, "logit bias: the vocabulary has no token 1000000"),
    ({"temperature": -1.0}, "temperature must be"),
])
def test_wrong_options_are_named(model, fields, message):
    with pytest.raises(ValueError, match=message):
        forerun.generate(model, PROMPT, None, **fields)


def test_what_else_can_be_wrong(model, tmp_path):
    with pytest.raises(forerun.UsageError, match="prompt"):
        forerun.generate(model, [], None)
    with pytest.raises(forerun.UsageError, match="nothing-of-the-kind"):
        forerun.generate(model, PROMPT, "nothing-of-the-kind")
    with pytest.raises(forerun.UsageError, match="use auto, int8, int4, bf16, f32 or file"):
        forerun.Model(str(LLAMA), "f16")
    with pytest.raises(TypeError, match="not both"):
        forerun.generate(model, PROMPT, options=forerun.GenerateOptions(), seed=3)
    broken = tmp_path / "model.gguf"
    broken.write_bytes(b"GGUF but no more")
    with pytest.raises(forerun.FormatError, match="model.gguf"):
        forerun.Model(str(broken))
