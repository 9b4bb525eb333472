"""Images of Diffusion Transformers, and of transformers of image tokens."""

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _forerun
from ._fields import AnyImageOptions, ImageFields, Unpack
from ._forerun import (Certificate, DiffusionModel, ImageDrafter, ImageModel, ImageOptions, ImageRun, TokenImageModel,
                       TokenImageOptions)
from ._text import options_of

_OPTIONS: dict[type[ImageModel], Any] = {DiffusionModel: ImageOptions, TokenImageModel: TokenImageOptions}


def load_image_model(path: str | os.PathLike[str], precision: str = "auto") -> ImageModel:
    """The image model in a folder, of either kind; `precision` f32, bf16 or auto, the faster one."""
    return TokenImageModel(path, precision) if _forerun.is_token_image_model(path) else DiffusionModel(path, precision)


def drafter_and_options(model: ImageModel, drafter: ImageDrafter | str | None, options: AnyImageOptions | None,
                        fields: Mapping[str, Any]) -> tuple[Any, Any]:
    make_drafter: Any = ImageDrafter  # for a model of one of two kinds
    named = drafter is None or isinstance(drafter, str)
    made = make_drafter(drafter or "none", model) if named else drafter
    return made, options_of(_OPTIONS[type(model)], options, fields)


def generate_images(model: ImageModel, labels: Iterable[int], drafter: ImageDrafter | str | None = "none", *,
                    options: AnyImageOptions | None = None, **fields: Unpack[ImageFields]) -> ImageRun:
    """Samples an image of each class in `labels`. `fields` are those of ImageOptions or TokenImageOptions.

    The result's `images` are [n, height, width, channels] uint8, its `values` [n, channels, side, side] float32.
    """
    generate: Any = _forerun.generate_images  # one of two kinds
    return generate(model, *_arguments(model, labels, drafter, options, fields))


def certify_images(model: ImageModel, labels: Iterable[int], drafter: ImageDrafter | str | None = "none", *,
                   counterfactuals: int = 16, options: AnyImageOptions | None = None,
                   **fields: Unpack[ImageFields]) -> Certificate:
    """Samples as `generate_images`, and scores every step again by plain passes of the target."""
    certify: Any = _forerun.certify_images  # one of two kinds
    return certify(model, *_arguments(model, labels, drafter, options, fields), counterfactuals)


def _arguments(model, labels, drafter, options, fields):
    drafter, options = drafter_and_options(model, drafter, options, fields)
    return drafter, [operator.index(label) for label in labels], options
