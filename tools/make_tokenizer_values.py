#!/usr/bin/env python3
"""What Hugging Face tokenizers, SentencePiece and the models' own chat templates give, for the tests of
forerun/formats/tokenizer and chat_template.

usage: make_tokenizer_values.py [--model FILE.gguf] [--prompts FILE.jsonl] [--templates DIR]
  --model      SmolLM2-135M-Instruct as GGUF (default: in the model cache folder)
  --prompts    one JSON object a line, its text under "prompt"; without them texts.json, classes.json and words.json alone
  --templates  <family>.jinja of chat_families(), from the models' tokenizer_config.json; without it
               tests/data/tokenizer/chat.json is left as it is

Writes into tests/data/tokenizer:
  texts.json          the texts: {"text": ...}, {"hex": bytes that are not UTF-8} or {"repeat": [text, n]}
  smollm2.json        ids for texts and prompts by the real vocabulary, rebuilt from the GGUF file
  <name>.json         small trained tokenizers in Hugging Face's format; <name>.ids.json their ids
  sentencepiece*.json pieces, scores, types of small SentencePiece models, with their ids
  classes.json        ranges of code points in the character classes of the reference, and "nfc": for every
                      4,096 code points a 64-bit FNV-1a hash of the NFC of a + code point + four marks
  words.json          by the names that GGUF files give pre-tokenizers: the words of the texts
  chat.json           conversations as the real chat templates write them
Ids lie under "parse" (special tokens found in the text) and "text" (HF: encode_special_tokens = True, so
that special tokens are text while other added tokens are still found), one list a text. Bytes that are not
UTF-8 go through bytes.decode("utf-8", errors="replace") first. "decoded" has what decoding the ids of
"text" gives, for those texts of up to 1000 characters where that is another text. Among ids, [i, n] is n times i.
"""

import argparse
import io
import itertools
import json
import os
import pathlib
import random
import unicodedata

import jinja2
import jinja2.sandbox
import sentencepiece
from gguf import GGUFReader
from sentencepiece import sentencepiece_model_pb2 as sp_model
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "data" / "tokenizer"
CACHE = pathlib.Path(os.environ.get("FORERUN_MODEL_CACHE")
                     or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "forerun")

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + ENDINGS +
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + ENDINGS +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_LETTERS = ("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
                    "\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
                    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b"
                    "\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
                    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
                    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
                    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
                    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
                    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
                    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+")
DEEPSEEK_IDEOGRAPHS = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# By tokenizer.ggml.pre: the patterns that cut a text one after another.
PATTERNS = {"llama-bpe": [LLAMA3], "qwen2": [QWEN2], "qwen35": [QWEN35], "tekken": [TEKKEN], "gpt-4o": [GPT4O],
            "deepseek-llm": [r"[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                             r"\s+$", DEEPSEEK_IDEOGRAPHS, r"\p{N}+"],
            "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_IDEOGRAPHS, r"\p{N}"]}

SPACES = [chr(c) for c in (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x180E, 0x2000,
                           0x2003, 0x2009, 0x200A, 0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF)]


def texts():
    """About 200 texts that tokenizers get wrong, as they lie in texts.json."""
    t = ["", " ", "  ", "   ", "a", " a", "a ", "  a", "a  ", " a b ", "\n", "\n\n", "\n\n\n", " \n", "\n ", "\t", "\t\t", "\r\n",
         "\r\n\r\n", "a\r\nb", "a\n\nb", "a \n \n b", "a\t\tb", "    indented\n        more\n", "x  \n\n   y", "trailing   ",
         "don't can't I'm you're they've we'll he'd it's", "DON'T CAN'T I'M YOU'RE THEY'VE WE'LL HE'D IT'S", "Don'T i'Ll",
         "'s 't 're 've 'm 'll 'd", "'S'T'RE'VE'M'LL'D", "''s ' s '", "\u2019s don\u2019t", "it'\u017f IT'\u017f '\u017ftart",
         "\u212a \u212aelvin 5\u212a", "'\u212a", "stra\u00dfe STRASSE \u1e9e", "\ufb01ne \ufb00 \ufb05", "I\u0307 \u0130 \u0131",
         "0", "12", "123", "1234", "12345678901", "3.14159", "1,000,000", "1e-10", "0x1F", "2024-01-31", "a1b2c3", "1st 2nd",
         "\u0663\u0664\u0665", "\u0967\u0968\u0969 \u096a", "\uff11\uff12\uff13", "\u00b2\u00b3\u00b9 x\u00b2", "\u2160\u2161\u2163", "\u2460\u2461 \u3289", "\u00bd\u00bc\u2153",
         "\U0001d7ce\U0001d7d9", "\u4e00\u4e8c\u4e09", "\U00010140\U00011de0\U00016ff4", "\U0001ccf0\U00010d40",
         "\U0001f600", "\U0001f600\U0001f601", "\U0001f44b\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f3\ufe0f\u200d\U0001f308",
         "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f", "1\ufe0f\u20e3", "a\U0001f600b \U0001f600 c", "\U0001f9d1\u200d\U0001f680!",
         "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u5929\u6c14 weather \u5929\u6c14",
         "\U00020000\U0002a6d6", "\u300c\u5f15\u7528\u300d\u3001\u2026\u2026", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
         "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "abc \u202b\u05d0\u05d1\u05d2\u202c def", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u03ba\u03cc\u03c3\u03bc\u03b5",
         "e\u0301", "\u00e9", "e\u0301\u00e9", "n\u0303 \u00f1", "a\u0323\u0307 a\u0307\u0323 \u1ea1\u0307", "\u1e9b\u0323", "\u212b A\u030a \u00c5", "\u0344 \u0387 \u2126", "q\u0307\u0323", "\u0958 \u0915\u093c",
         "\u0301", "\u0301abc", "a\u0301\u0302\u0303\u0304\u0305", "Z\u0351\u036b\u0343a\u0329\u0301l\u0325g\u0337o\u0322", "\u200b\u200c\u200d", "a\u200bb", "\ufeffstart", "soft\u00adhyphen", "a\u2060b",
         "\u0000", "a\u0000b", "\u0000\u0000\u0000", "\u0001\u0002\u001f", "\u007f", "\u0080\u009f", "\ue000\uf8ff", "\U0010ffff", "\ufffd", "\ufffe\uffff", "\u0378\u0530",
         "<|im_start|>", "<|im_end|>", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start", "<|im_start |>", "< |im_end|>", "<|im_end|", "<<|im_end|>>",
         "<|im_start|><|im_start|>", "a<|im_end|>b", " <|im_end|> ", "<|endoftext|>", "x<|endoftext|>y<|endoftext|>", "<|IM_START|>", "<|im_\u200bstart|>",
         "<repo_name><reponame>", "<file_sep>a.py", "<issue_start>", "<empty_output>", "<jupyter_text>x<jupyter_code>y", "</s>", "<s>hello</s>", "<unk>", "<bos>hi<eos>", "<pad>",
         "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "<start_of_turn>user\nhi<end_of_turn>\n", "<0x0A>", "<0x41><0x42>", "[MASK] a [MASK]b",
         "a   [MASK]   b", "wordy words word sword word", "word", "WORD word's", "\u2581", "\u2581\u2581a", "a \u2581 b", "<sep>", "a<sep>b <sep> c", "<tool> caf\u00e9 cafe\u0301 <tool>",
         "http://example.com/a?b=c&d=%20#e", "user@example.org", "C:\\path\\to\\file.txt", "/usr/bin/env python3", "foo_bar __init__ camelCaseWord HTTPServer",
         "if (x==1) {\n\treturn y[0]->z;\n}", "def f(x):\n    return x**2  # square\n", "<div class=\"a\">&nbsp;</div>", "{\"k\": [1, 2.5, null]}", "$\\frac{1}{2}$ \\alpha",
         "!!!", "...", "?!?!", "-----", "=====\n", "***bold***", "\u2014dash\u2013", "\u201cquoted\u201d \u2018single\u2019", "\u20ac100 \u00a35 \u00a57", "a/b\\c|d", "(((())))", "#hashtag @user",
         "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "tHe QuIcK", "antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaft",
         "hello\u00a0world", "hello\u3000world", "a\u0085b", "a\u2028b\u2029c", "a\u180eb", "a\u180e b \u180e", "\u00a0\u00a0\u00a0x", "x\u00a0\n\u00a0y", " \u00a0 \u3000 ", "\u2003\u2003 indent",
         "\U00031350 \U0002ebf0", "\u1c89\ua7da a\u1c89b", "x\U00016100y \U0001e5d0", "\U00011938 \U00011935\U00011930", "\u24b6\u24b7 \U0001f130", "\u0345\u0370"]
    rng = random.Random(20240131)
    for _ in range(12):  # runs of mixed white space between words
        t.append("".join(rng.choice(["a", "Bc", "7", "!", "\u00e9"]) if rng.random() < 0.3 else rng.choice(SPACES) for _ in range(24)))
    for _ in range(12):  # anything at all
        t.append("".join(chr(rng.choice([rng.randrange(0x20, 0x7F), rng.randrange(0x80, 0x800), rng.randrange(0x800, 0xD800),
                                         rng.randrange(0x10000, 0x110000)])) for _ in range(24)))
    out = [{"text": x} for x in t]
    bad = [b"\x80", b"\xff\xfe", b"a\xc3", b"a\xe2\x82", b"\xe2\x82b", b"\xf0\x9f\x98", b"\xf0\x9f\x98x", b"\xc0\x80", b"\xe0\x80\x80",
           b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"ok \xc3\x28 ok", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xc3\xa9\xc3", bytes(range(128, 256))]
    out += [{"hex": b.hex()} for b in bad]
    out += [{"repeat": [x, 10000]} for x in ("a", " ", "\n", "\u00e9", "1", "!")]
    out += [{"repeat": [x, 500]} for x in ("ab ", " \n", "\U0001f600", "<|im_end|>")]
    return out


def text_of(entry):
    """The text that the reference is given."""
    if "hex" in entry:
        return bytes.fromhex(entry["hex"]).decode("utf-8", errors="replace")
    return entry["repeat"][0] * entry["repeat"][1] if "repeat" in entry else entry["text"]


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def packed(ids):
    """The ids with runs of more than three as [id, times]."""
    out = []
    for i, run in ((i, len(list(run))) for i, run in itertools.groupby(ids)):
        out += [[i, run]] if run > 3 else [i] * run
    return out


def other_texts(all_texts, decoded):
    return {str(i): d for i, (t, d) in enumerate(zip(all_texts, decoded)) if d != t and len(t) <= 1000}


def ids_of(tokenizer, all_texts, check_decoded=True):
    """The "parse", "text" and "decoded" of a tokenizer; see the top of this file."""
    out = {}
    for mode, as_text in (("parse", False), ("text", True)):
        tokenizer.encode_special_tokens = as_text
        out[mode] = [tokenizer.encode(t, add_special_tokens=False).ids for t in all_texts]
    tokenizer.encode_special_tokens = False
    if check_decoded:
        decoded = [tokenizer.decode(ids, skip_special_tokens=False) for ids in out["text"]]
        out["decoded"] = other_texts(all_texts, decoded)
    for mode in ("parse", "text"):
        out[mode] = [packed(ids) for ids in out[mode]]
    return out


def smollm2(path):
    """The tokenizer of the GGUF file, put together again for Hugging Face's library."""
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, y in zip(tokens, types) if y == 3])
    return tokenizer, fields["tokenizer.chat_template"].contents()


def train(tokenizer, corpus, special, vocab, byte_level=True):
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=special, show_progress=False, max_token_length=12,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [])
    tokenizer.train_from_iterator(corpus, trainer)


FLAGS = [AddedToken("[MASK]", lstrip=True, special=True), AddedToken("<sep>", rstrip=True, normalized=False, special=False),
         AddedToken("word", single_word=True, normalized=False, special=False),
         AddedToken("caf\u00e9", normalized=True, special=False), AddedToken("<tool>", lstrip=True, rstrip=True, special=False)]


def trained_byte_level(corpus):
    """name -> tokenizer: the byte-level families."""
    S, B = pre_tokenizers.Split, pre_tokenizers.ByteLevel
    bytes_only = B(add_prefix_space=False, use_regex=False)
    im = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    cases = {"gpt2": (None, B(add_prefix_space=False), im[:1], True),
             "prefix": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), B(add_prefix_space=True)]), im, False),
             "llama3": (None, pre_tokenizers.Sequence([S(Regex(LLAMA3), "isolated"), bytes_only]),
                        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], False),
             "qwen2": (normalizers.NFC(), pre_tokenizers.Sequence([S(Regex(QWEN2), "isolated"), bytes_only]), im, True)}
    out = {}
    for name, (normalizer, pre, special, flags) in cases.items():
        t = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
        if normalizer is not None:
            t.normalizer = normalizer
        t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
        train(t, corpus, special, 700)
        if flags:
            t.add_tokens(FLAGS)
        if name == "llama3":
            t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
                single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
        out[name] = t
    return out


def trained_spaced(corpus):
    """name -> tokenizer: the families that write spaces as U+2581 and unknown characters as bytes."""
    N, P, D = normalizers, pre_tokenizers, decoders
    tail = [D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()]
    cases = {"gemma": (N.Replace(" ", "\u2581"), P.Split(" ", "merged_with_previous"), D.Sequence(tail)),
             "llama2": (N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None, D.Sequence(tail + [D.Strip(" ", 1, 0)])),
             "metaspace": (None, P.Metaspace("\u2581", "first", split=True), D.Metaspace("\u2581", "first", split=True))}
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    out = {}
    for name, (normalizer, pre, decoder) in cases.items():
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        t.normalizer = normalizer
        # Training needs words; without them it would see whole texts as one.
        t.pre_tokenizer = pre if name == "metaspace" else P.Metaspace("\u2581", "never")
        t.decoder = decoder
        train(t, corpus, special, 500, byte_level=False)
        d = json.loads(t.to_str())
        d["pre_tokenizer"] = json.loads(pre.__getstate__()) if pre is not None else None
        if name != "metaspace":  # that one has no byte tokens: unknown characters stay unknown
            d["model"]["byte_fallback"] = True
            for b in range(256):
                d["model"]["vocab"][f"<0x{b:02X}>"] = len(d["model"]["vocab"])
        out[name] = Tokenizer.from_str(json.dumps(d))
        out[name].add_tokens([AddedToken("<sep>", normalized=False, special=False)])
    t = out["gemma"]
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", t.token_to_id("<bos>"))])
    return out


def sentencepiece_values(corpus, name, all_texts, prefix, fallback):
    blob = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for c in corpus for line in c.split("\n") if line]), model_writer=blob, model_type="bpe",
        vocab_size=640, byte_fallback=fallback, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=prefix, user_defined_symbols=["<sep>", "\n\n", "\u2581\u2581"], control_symbols=["<start_of_turn>"],
        hard_vocab_limit=False, minloglevel=2, num_threads=1, character_coverage=0.98)
    proto = sp_model.ModelProto.FromString(blob.getvalue())
    # Some pieces become steps of merging only, as SentencePiece's own vocabulary restriction makes them.
    normal = [p for p in proto.pieces if p.type == 1 and len(p.piece) > 1]
    for p in normal[5::9]:
        p.type = 5
    sp = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    ids = [sp.encode(t) for t in all_texts]
    write(name, {"tokens": [p.piece for p in proto.pieces], "scores": [p.score for p in proto.pieces],
                 "types": [p.type for p in proto.pieces], "add_space_prefix": prefix, "byte_fallback": fallback,
                 "bos": sp.bos_id(), "eos": sp.eos_id(), "unk": sp.unk_id(), "text": [packed(i) for i in ids],
                 "decoded": other_texts(all_texts, [sp.decode(i) for i in ids])})


def classes():
    """Which code points the reference's \\p{L}, \\p{N}, \\s and digit splitting take."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]

    def ranges(hit):
        out = []
        for c in every:
            if hit(c):
                if out and out[-1][1] == ord(c) - 1:
                    out[-1][1] = ord(c)
                else:
                    out.append([ord(c), ord(c)])
        return out

    out = {}
    for name, regex in (("letter", r"\p{L}"), ("number", r"\p{N}"), ("space", r"\s"), ("upper", r"\p{Lu}"),
                        ("lower", r"\p{Ll}"), ("title", r"\p{Lt}"), ("modifier", r"\p{Lm}"), ("other_letter", r"\p{Lo}"),
                        ("mark", r"\p{M}"), ("punctuation", r"\p{P}"), ("symbol", r"\p{S}")):
        split = pre_tokenizers.Split(Regex(regex), "removed")
        out[name] = ranges(lambda c: not split.pre_tokenize_str(c))
    digits = pre_tokenizers.Digits(individual_digits=True)
    out["numeric"] = ranges(lambda c: len(digits.pre_tokenize_str("a" + c)) == 2)
    nfc = normalizers.NFC()
    out["nfc"] = []
    for start in range(0, 0x110000, 4096):
        h = 0xCBF29CE484222325
        for c in range(start, start + 4096):
            if not 0xD800 <= c < 0xE000:
                for byte in nfc.normalize_str("a" + chr(c) + "\u0301\u0334\u05b0\u302a").encode():
                    h = (h ^ byte) * 0x100000001B3 % 2**64
        out["nfc"].append(f"{h:016x}")
    write("classes.json", out)


def words(all_texts):
    """How the pre-tokenizers that GGUF files name cut texts: the words' bytes, packed."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    steps = {name: [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] + [cut]
             for name, patterns in PATTERNS.items()}
    steps["starcoder"] = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    out = {}
    for name, parts in steps.items():
        pre = pre_tokenizers.Sequence(parts)  # of the byte alphabet every character is a byte
        out[name] = [packed([len(w) for w, _ in pre.pre_tokenize_str(t)]) for t in all_texts]
    write("words.json", out)


def chat_families():
    return ["chatml", "smollm2", "qwen2", "qwen25", "qwen3", "llama3", "llama31", "gemma2", "gemma3", "zephyr"]


def conversations():
    s, u, a = (lambda role: lambda text: {"role": role, "content": text})("system"), \
        (lambda text: {"role": "user", "content": text}), (lambda text: {"role": "assistant", "content": text})
    return [[u("Hello")], [s("Be brief."), u("Hello")], [u("Hello"), a("Hi!"), u("How are you?")],
            [s("  Be\n brief. \n"), u("  Hello \n\n"), a("\n Hi! \t"), u("\u00a0x\u3000")],
            [u("Hello"), a("Hi!")], [s(""), u("")], [u("caf\u00e9 \U0001f600 <|im_end|> {{ x }} {% y %}")],
            [u("Q"), a("<think>\nhm\n</think>\n\nA"), u("Q2")], [u("Q"), a("<think>\nhm\n</think>\n\nA")],
            [u("Q"), a("no start</think>A"), u("<tool_response>x</tool_response>"), a("B"), a("<think>c</think>\n\nC")],
            [u("Q"), a("\n\nA\n")], [u("a"), s("late"), u("b")], [u("a"), u("b")], [a("first")], [s("only")]]


def chat(directory, smollm2_template):
    """Every conversation by every real template, with and without the start of an answer."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals["raise_exception"] = refuse
    out = []
    for family in chat_families():
        source = smollm2_template if family == "smollm2" else (directory / f"{family}.jinja").read_text()
        template = env.from_string(source)
        for messages in conversations():
            for add in (False, True):
                for thinking in ((True, False) if family == "qwen3" else (True,)):
                    case = {"family": family, "messages": messages, "add_generation_prompt": add, "thinking": thinking}
                    try:
                        case["text"] = template.render(messages=messages, add_generation_prompt=add, bos_token="<BOS>",
                                                       eos_token="<EOS>", enable_thinking=thinking)
                    except jinja2.exceptions.TemplateError:
                        case["text"] = None
                    out.append(case)
    write("chat.json", out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--templates", type=pathlib.Path)
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)

    entries = texts()
    write("texts.json", entries)
    hostile = [text_of(e) for e in entries]
    classes()
    words(hostile)
    if args.prompts is None:
        return
    prompts = [json.loads(line)["prompt"] for line in args.prompts.read_text().splitlines()]
    tokenizer, template = smollm2(args.model)
    write("smollm2.json", {"prompts": prompts, "texts": ids_of(tokenizer, hostile), "on_prompts": ids_of(tokenizer, prompts)})

    corpus = [p.read_text() for p in sorted((ROOT / "tools" / "texts").glob("*.txt"))] + prompts
    corpus += [t for t in hostile if len(t) < 1000] * 2 + [unicodedata.normalize("NFC", t) for t in hostile if len(t) < 1000]
    sample = hostile + prompts[:10]
    write("prompts.json", prompts[:10])
    for name, t in {**trained_byte_level(corpus), **trained_spaced(corpus)}.items():
        write(f"{name}.json", json.loads(t.to_str()))
        write(f"{name}.ids.json", ids_of(Tokenizer.from_file(str(OUT / f"{name}.json")), sample))
    sentencepiece_values(corpus, "sentencepiece.json", sample, prefix=True, fallback=True)
    sentencepiece_values(corpus, "sentencepiece_plain.json", sample, prefix=False, fallback=False)
    if args.templates:
        chat(args.templates, template)
    print(f"{len(entries)} texts, {len(prompts)} prompts -> {OUT}")


if __name__ == "__main__":
    main()
