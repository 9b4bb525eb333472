"""Conversations as tokens by Hugging Face's transformers (apply_chat_template): tests/data/jinja/tokens.json, from the
templates of tests/data/jinja and the small tokenizers of tests/data/tokenizer.

usage: tools/make_chat_values.py   (needs transformers and jinja2)
"""

import json
import os

from transformers import PreTrainedTokenizerFast

from make_jinja_values import CHATS, FOLDER, TOOLS

TOKENIZERS = os.path.join(FOLDER, "..", "tokenizer")
# Template, tokenizer, and its special tokens as tokenizer_config.json names them.
MODELS = [
    ("smollm2.jinja", "prefix", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}),
    ("qwen25.jinja", "qwen2", {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}),
    ("qwen3.jinja", "qwen2", {"eos_token": "<|im_end|>"}),
    ("llama3.jinja", "llama3", {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    ("gemma.jinja", "gemma", {"bos_token": "<bos>", "eos_token": "<eos>"}),
    ("mistral.jinja", "llama2", {"bos_token": "<bos>", "eos_token": "<eos>"}),
    ("zephyr.jinja", "metaspace", {"bos_token": "<bos>", "eos_token": "<eos>"}),
    ("phi3.jinja", "gpt2", {"eos_token": "<|endoftext|>"}),
    ("qwen3_coder.jinja", "qwen2", {"eos_token": "<|im_end|>"}),
    ("glm45.jinja", "gpt2", {"eos_token": "<|endoftext|>"}),
]


BEGUN = ["The sky", "Sure: ", "{\n", " a", "", "\n", "a  b\t", "a\u00a0\u3000 "]  # answers to be continued


def chats():
    for messages in CHATS.values():
        for prompt in (False, True):
            yield {"messages": messages, "tools": None, "add_generation_prompt": prompt}
        yield {"messages": messages, "tools": TOOLS, "add_generation_prompt": True}
    for begun in BEGUN:
        yield {"messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": begun}], "tools": None,
               "add_generation_prompt": False, "continue": True}


def main():
    models, rendered, refused = [], 0, 0
    for template, name, config in MODELS:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(TOKENIZERS, name + ".json"), **config)
        with open(os.path.join(FOLDER, template), encoding="utf-8", newline="") as f:
            tokenizer.chat_template = f.read()
        cases = []
        for i, chat in enumerate(chats()):
            if not chat["messages"]:
                continue  # transformers takes an empty list for a list of no conversations
            try:
                tokens = tokenizer.apply_chat_template(
                    chat["messages"], tools=chat["tools"], add_generation_prompt=chat["add_generation_prompt"],
                    continue_final_message=chat.get("continue", False), tokenize=True, return_dict=False)
                cases.append({"chat": i, "tokens": tokens})
                rendered += 1
            except Exception as e:  # noqa: BLE001
                cases.append({"chat": i, "error": type(e).__name__})
                refused += 1
        models.append({"template": template, "tokenizer": name, "config": config, "cases": cases})
    with open(os.path.join(FOLDER, "tokens.json"), "w", encoding="utf-8") as f:
        json.dump({"rendered": rendered, "refused": refused, "chats": list(chats()), "models": models}, f,
                  ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(f"{rendered} chats as tokens, {refused} refused")


if __name__ == "__main__":
    main()
