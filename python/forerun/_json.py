"""JSON of what calls are given."""

import json
from collections.abc import Mapping, Sequence


def json_of(value: object, ensure_ascii: bool) -> str:
    """As json.dumps, also of mappings and sequences other than dict, list and tuple: annotations promise them."""
    return json.dumps(value, ensure_ascii=ensure_ascii, default=_plain)


def _plain(value: object) -> dict | list:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
