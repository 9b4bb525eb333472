"""The tokenizer of a GGUF file as a Hugging Face folder: usage gguf_tokenizer.py FILE.gguf FOLDER.

For clients that count tokens with a tokenizer of their own. Written for SmolLM2: bytes as pieces, digits one by one.
"""

import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = 3  # tokenizer.ggml.token_type


def main():
    fields = GGUFReader(sys.argv[1]).fields
    pieces, kinds, merges, end = (fields["tokenizer.ggml." + name].contents()
                                  for name in ("tokens", "token_type", "merges", "eos_token_id"))
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(p, special=True, normalized=False) for p, k in zip(pieces, kinds) if k == SPECIAL])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=pieces[end],
                            chat_template=fields["tokenizer.chat_template"].contents()).save_pretrained(sys.argv[2])


main()
