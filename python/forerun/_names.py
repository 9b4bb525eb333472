"""Names of options: what an unknown one may have been meant as."""

from collections.abc import Sequence
from difflib import get_close_matches

# What other libraries (vLLM, llama.cpp, transformers, diffusers) call an option.
_ELSEWHERE = {
    "max_new_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "max_length": "max_tokens",
    "n_predict": "max_tokens", "num_predict": "max_tokens",
    "temp": "temperature", "repeat_penalty": "repetition_penalty", "ignore_eos": "ignore_end",
    "stop_strings": "stop", "stop_sequences": "stop", "stop_words": "stop",
    "random_seed": "seed", "manual_seed": "seed", "generator": "seed",
    "num_speculative_tokens": "max_draft", "num_assistant_tokens": "max_draft", "num_draft_tokens": "max_draft",
    "num_pred_tokens": "max_draft", "draft_max": "max_draft", "prompt_lookup_num_tokens": "max_draft",
    "guided_json": "json_schema", "guided_regex": "regex", "guided_choice": "choice", "pattern": "regex", "choices": "choice",
    "num_inference_steps": "steps", "guidance_scale": "guidance", "cfg": "guidance", "cfg_scale": "guidance",
    "lr": "learning_rate", "max_steps": "steps", "num_epochs": "epochs", "num_train_epochs": "epochs",
    "batch_size": "batch", "max_grad_norm": "clip", "warmup_ratio": "warmup", "eval_steps": "evaluate_steps",
    "save_steps": "checkpoint_steps",
}

# What they do by an option of texts, and forerun by other means.
_ADVICE = {
    "chat_template_kwargs": "generate, Engine.submit and Model.encode_chat have variables",
    "do_sample": "a temperature above 0 samples, 0 is greedy",
    "logprobs": "Engine.submit has log_probabilities, Model.score scores a text",
    "num_beams": "texts are drawn from the model's law, not searched for",
    # Their values are no schemas: an object around one, a flag, or a grammar of another form.
    "response_format": "json_schema takes the schema itself, a mapping or its JSON, regex an expression, choice texts",
    "num_return_sequences": "give generate_batch the prompt so many times, each text draws numbers of its own",
    "speculative_config": "name a drafter, as drafter='draft-model:PATH'",
    "stop_token_ids": "the model's end tokens end a text, stop takes strings",
    "stream": "generate has on_text, Engine events, AsyncEngine.text pieces",
}
_ADVICE |= {other: _ADVICE[one] for other, one in {
    "assistant_model": "speculative_config", "best_of": "num_return_sequences", "draft_model": "speculative_config",
    "eos_token_id": "stop_token_ids", "grammar": "response_format", "guided_decoding": "response_format",
    "json_mode": "response_format", "structured_outputs": "response_format", "n": "num_return_sequences", "streamer": "stream", "use_beam_search": "num_beams",
    "top_logprobs": "logprobs",
}.items()}

# Arguments that are no options, and whose they are.
_OF_TEXTS = {"log_probabilities": "Engine.submit", "on_text": "generate", "per_prompt": "certify", "tokens": "certify",
             "tools": "generate, Engine.submit and Model.encode_chat"}
_OF_TEXTS |= {"variables": _OF_TEXTS["tools"]}
_OF_IMAGES = {"counterfactuals": "certify_images", "previews": "Engine.submit_image"}


def no_option(name: str, known: Sequence[str]) -> str:
    """Why `name` is refused where the options are `known`, with the name that may have been meant."""
    there = f"here are {', '.join(known)}"
    refusal = f"no option {name!r}"
    arguments = _OF_TEXTS if "max_tokens" in known else _OF_IMAGES if "guidance" in known else {}
    if (here := _ELSEWHERE.get(name)) in known:
        return f"{refusal}: it is {here} here. T{there}"
    if name in _ADVICE and "max_tokens" in known:
        return f"{refusal}: {_ADVICE[name]}. T{there}"
    if name in arguments:
        return f"{refusal}: it is an argument of {arguments[name]}; t{there}"
    if not (close := get_close_matches(name, [*known, *arguments], 1)):
        return f"{refusal}; t{there}"
    of = f" of {arguments[close[0]]}" if close[0] in arguments else ""
    return f"{refusal}; did you mean {close[0]}{of}? T{there}"
