"""The keywords of calls, for type checkers: fields of the options, and what else a call takes."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from ._forerun import GenerateOptions, ImageOptions, TokenImageOptions

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    class Unpack:  # typing has none yet, and nobody checks types at run time
        def __class_getitem__(cls, fields):
            return Any

Tools = Sequence[Mapping[str, Any]] | None
"""Of a conversation: tools as OpenAI's API has them, for the chat format."""

Variables = Mapping[str, Any] | None
"""Of a conversation: further variables of the chat format, by name."""

AnyImageOptions = ImageOptions | TokenImageOptions


class TextFields(TypedDict, total=False):
    """Those of GenerateOptions."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    logit_bias: Mapping[int, float] | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    rule: str | None
    max_draft: int | None
    fixed_draft: bool | None
    max_tokens: int | None
    seed: int | None
    request: int | None
    stop: str | Sequence[str] | None
    json_schema: Mapping[str, object] | str | None
    regex: str | None
    choice: str | Sequence[str] | None
    ignore_end: bool | None
    trace: bool | None
    batch_size: int | None


class SubmitFields(TextFields, total=False):
    """Those of Engine.submit."""

    log_probabilities: int | None
    tools: Tools
    variables: Variables
    options: GenerateOptions | None


class ImageFields(TypedDict, total=False):
    """Those of ImageOptions and TokenImageOptions: which of the two a call takes depends on its model."""

    steps: int | None
    guidance: float | None
    seed: int | None
    first: int | None
    batch_size: int | None
    max_draft: int | None
    fixed_draft: bool | None
    rule: str | None
    vae: str | os.PathLike[str] | None
    pictures: bool | None
    guided_channels: int | None
    variance_share: float | None
    eta: float | None
    two_calls: bool | None
    reuse: bool | None
    relaxation: Sequence[float] | None
    linear_guidance: bool | None
    variance: str | None
    final_step: str | None
    temperature: float | None
    prefill: int | None
    passes: int | None


class SubmitImageFields(ImageFields, total=False):
    """Those of Engine.submit_image."""

    previews: int
    options: AnyImageOptions | None
