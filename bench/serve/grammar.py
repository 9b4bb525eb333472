#!/usr/bin/env python3
"""What a schema costs: tokens a second of answers that are held to one, and of the same prompts without, in turns.

usage: bench/serve/grammar.py FORERUN MODEL [--prompts N] [--tokens N]

The answers are checked against the schema, and N of them made again without drafts, which must give the same text. Where the
package jsonschema is installed it judges them.
"""

import argparse
import json
import re
import subprocess
import urllib.request

PLACES = ("Oslo", "Kyoto", "Lima", "Nairobi", "Prague", "Quebec", "Cairo", "Perth", "Bern", "Hanoi")
SCHEMA = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 40}, "country": {"type": "string", "maxLength": 40},
    "continent": {"enum": ["Africa", "America", "Asia", "Australia", "Europe"]},
    "sights": {"type": "array", "minItems": 2, "maxItems": 5, "items": {
        "type": "object", "properties": {"name": {"type": "string", "maxLength": 60},
                                         "why": {"type": "string", "maxLength": 200}}, "required": ["name", "why"]}},
    "population": {"type": "integer", "minimum": 1000, "maximum": 50000000}},
    "required": ["city", "country", "continent", "sights", "population"]}


def check(answer):
    try:
        import jsonschema
        jsonschema.validate(answer, SCHEMA)
    except ImportError:
        assert set(SCHEMA["required"]) == set(answer), answer
        assert answer["continent"] in SCHEMA["properties"]["continent"]["enum"], answer


def main():
    p = argparse.ArgumentParser()
    p.add_argument("forerun")
    p.add_argument("model")
    p.add_argument("--prompts", type=int, default=10)
    p.add_argument("--tokens", type=int, default=300)
    p.add_argument("--temperature", type=float, default=0.0)
    args = p.parse_args()
    server = subprocess.Popen([args.forerun, "serve", "-m", args.model, "--port", "0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        base = re.match(r"(\S+)", server.stdout.readline())[1].rstrip("/")

        def ask(place, **fields):
            body = {"messages": [{"role": "user", "content": f"Describe the city {place} as JSON with the keys city, country, "
                                  "continent, sights (name, why) and population."}],
                    "seed": 1, "temperature": args.temperature, "max_tokens": args.tokens, **fields}
            request = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=600) as r:
                return json.load(r)

        held = {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}}
        seconds, tokens, kept, whole = {}, {}, {}, 0
        for i in range(args.prompts):
            place = PLACES[i % len(PLACES)]
            for name, fields in (("free", {}), ("held", held), ("held, plain", {**held, "speculative": {"off": True}}),
                                 ("free, plain", {"speculative": {"off": True}})):
                answer = ask(place, **fields)
                seconds[name] = seconds.get(name, 0) + answer["timings"]["predicted_ms"] / 1e3
                tokens[name] = tokens.get(name, 0) + answer["timings"]["predicted_n"]
                kept[name] = kept.get(name, 0) + answer["timings"]["draft_n_accepted"]
                if name == "held":
                    first = answer["choices"][0]
                    if first["finish_reason"] == "stop":
                        check(json.loads(first["message"]["content"]))
                        whole += 1
                if name == "held, plain":
                    assert answer["choices"][0]["message"] == first["message"], "another text without drafts"
        for name in seconds:
            print(f"{name}: {tokens[name] / seconds[name]:.1f} tok/s, {tokens[name]} tokens, {kept[name]} drafts kept")
        rate = {name: tokens[name] / seconds[name] for name in seconds}
        print(f"held to free: {rate['held'] / rate['free']:.2f} with drafts, "
              f"{rate['held, plain'] / rate['free, plain']:.2f} without; {whole} of {args.prompts} answers whole and valid, "
              "all the same without drafts")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
