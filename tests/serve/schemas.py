"""Random JSON schemas of what the server keeps, schemas that it refuses, and a judge of answers that knows no grammar."""

import random
import re

PATTERNS = (r"^[a-c]{1,4}$", r"^\d{2}-[01]\d$", r'^("|\\|\t|é){2}$', r"^(red|green)?$", r"^[xy]?$", r"^[^ -~]$", r"^\S\W$")
WORDS = ("id", "name", "tags", "size", "ok", "kind", "at", "of")


def scalar(r):
    kind = r.randrange(10)
    if kind == 0:
        return {"type": "string", "maxLength": r.randrange(1, 6)}
    if kind == 1:
        least = r.randrange(3)
        return {"type": "string", "minLength": least, "maxLength": least + r.randrange(3)}
    if kind == 2:
        least = r.randrange(-300, 300)
        return {"type": "integer", "minimum": least, "maximum": least + r.randrange(500)}
    if kind == 3:
        least = r.randrange(-20, 20)
        return {"type": "number", "exclusiveMinimum": least, "maximum": least + 1 + r.randrange(30)}
    if kind == 4:
        return {"enum": r.sample(["red", "green", 1, 2.5, None, True, "a\"b", [1, {"x": None}]], 3)}
    if kind == 5:
        return {"const": r.choice(["v", 7, {"a": [1]}, False])}
    if kind == 6:
        return {"type": r.sample(["boolean", "null"], 2)}
    if kind == 7:
        return {"type": "string", "format": r.choice(["date", "time", "date-time", "uuid", "ipv4"])}
    if kind == 8:
        if r.random() < 0.3:
            return {"type": "string", "pattern": r"^[\w-]*$", "minLength": 1, "maxLength": 3}
        return {"type": "string", "pattern": r.choice(PATTERNS)}
    return {"type": "boolean", "description": "whether"}


def schema(r, depth=2):
    """A schema whose values have bounded lengths, as models of random weights end nothing."""
    kind = r.randrange(6) if depth > 0 else 5
    if kind <= 1:
        names = r.sample(WORDS, r.randrange(1, 4))
        out = {"type": "object", "properties": {n: schema(r, depth - 1) for n in names},
               "required": [n for n in names if r.random() < 0.6]}
        if r.random() < 0.5:
            out["additionalProperties"] = False
        return out
    if kind == 2:
        least = r.randrange(3)
        return {"type": "array", "items": schema(r, depth - 1), "minItems": least, "maxItems": least + r.randrange(3)}
    if kind == 3:
        return {"anyOf": [schema(r, depth - 1) for _ in range(2)]}
    if kind == 4:
        return {"type": "array", "prefixItems": [schema(r, 0), schema(r, 0)], "items": False, "minItems": r.randrange(3)}
    return scalar(r)


def named(r):
    """One with definitions, that refers to them."""
    return {"type": "object", "$defs": {"part": schema(r, 1), "leaf": scalar(r)},
            "properties": {"a": {"$ref": "#/$defs/part"}, "b": {"type": "array", "items": {"$ref": "#/$defs/leaf"},
                                                              "maxItems": 2}}, "required": ["a", "b"]}


def schemas(count, seed=1):
    r = random.Random(seed)
    return [named(r) if i % 10 == 9 else schema(r) for i in range(count)]


UNKEPT = ({"not": {}}, {"if": {}, "then": {}}, {"contains": {"type": "null"}}, {"uniqueItems": True, "type": "array"},
          {"type": "string", "pattern": "^(?=a)"}, {"type": "string", "pattern": "a|bc", "minLength": 2}, {"patternProperties": {"a": {}}}, {"propertyNames": {}},
          {"dependentRequired": {"a": ["b"]}}, {"multipleOf": 3, "type": "integer"}, {"minLength": 2}, {"enum": []},
          {"$ref": "other.json"}, {"$ref": "#/nowhere"}, {"type": "text"}, {"allOf": [{}, {}]},
          {"oneOf": [{}, {"type": "null"}]}, {"type": "string", "format": "email"}, {"unevaluatedProperties": False})


def refused_schemas(count, seed=2):
    """Each holds a part that is not kept, somewhere."""
    r = random.Random(seed)
    out = []
    for i in range(count):
        s = UNKEPT[i % len(UNKEPT)]
        for _ in range(r.randrange(3)):
            s = r.choice(({"type": "object", "properties": {"a": {"type": "null"}, "b": s}},
                          {"type": "array", "items": s, "maxItems": 2}, {"anyOf": [{"type": "null"}, s]}))
        out.append(s)
    return out


def type_of(v):
    if isinstance(v, bool):
        return "boolean"
    if v is None:
        return "null"
    if isinstance(v, (int, float)):
        return "integer" if float(v).is_integer() else "number"
    return {str: "string", list: "array", dict: "object"}[type(v)]


def same(a, b):
    """Equal as JSON: true is not 1."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def valid(v, s, root=None):
    """Whether a value satisfies a schema made here."""
    root = s if root is None else root
    if "$ref" in s:
        return valid(v, root["$defs"][s["$ref"].split("/")[-1]], root)
    if "anyOf" in s:
        return any(valid(v, option, root) for option in s["anyOf"])
    if "enum" in s or "const" in s:
        return any(same(v, option) for option in s.get("enum", [s.get("const")]))
    types = s["type"] if isinstance(s["type"], list) else [s["type"]]
    kind = type_of(v)
    if kind not in types and not (kind == "integer" and "number" in types):
        return False
    if kind == "string":
        return s.get("minLength", 0) <= len(v) <= s.get("maxLength", 1000) and re.search(s.get("pattern", ""), v, re.ASCII) is not None
    if kind in ("integer", "number"):
        return s.get("minimum", v) <= v <= s.get("maximum", v) and s.get("exclusiveMinimum", v - 1) < v
    if kind == "array":
        first = s.get("prefixItems", [])
        return (s.get("minItems", 0) <= len(v) <= s.get("maxItems", len(first) if first else 1000) and
                all(valid(x, first[i] if i < len(first) else s["items"], root) for i, x in enumerate(v)))
    if kind == "object":
        return (all(n in v for n in s.get("required", ())) and
                all(n in s["properties"] and valid(x, s["properties"][n], root) for n, x in v.items()))
    return True
