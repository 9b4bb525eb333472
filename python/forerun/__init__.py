"""forerun: generates faster without changing what is generated.

    import forerun
    model = forerun.Model("model.gguf")
    print(forerun.generate(model, "Once upon a time", drafter="auto", max_tokens=64))
"""

from importlib import metadata as _metadata

from . import _forerun
from ._async import AsyncEngine
from ._engine import Engine
from ._forerun import (
    Certificate,
    CertificateReport,
    Difference,
    DiffusionModel,
    Drafter,
    Failed,
    FormatError,
    GenerateOptions,
    Generated,
    ImageDrafter,
    ImageFinished,
    ImageModel,
    ImageOptions,
    ImagePreview,
    ImageRun,
    Model,
    RoundReport,
    RoundTrace,
    Statistics,
    TextFinished,
    TextPiece,
    TextResult,
    TokenImageModel,
    TokenImageOptions,
    TokenOutput,
    TokenScore,
    UsageError,
    Waiting,
    distill,
    set_threads,
    train_classifier,
    train_cspd,
    train_dflash,
    train_dit,
    train_dlm,
    train_free,
    train_mar,
    train_medusa,
    train_ngram,
    train_tidar,
    train_tidar_model,
)
from ._image import certify_images, generate_images, load_image_model
from ._text import certify, generate, generate_batch
from . import law

try:
    __version__ = _metadata.version("forerun")
except _metadata.PackageNotFoundError:  # where only the files are copied, as in a frozen program
    __version__ = getattr(_forerun, "__version__")  # which its stub leaves out
"""That of the package, as pip has it, or else as it was compiled."""

__all__ = [
    "AsyncEngine", "Certificate", "CertificateReport", "Difference", "DiffusionModel", "Drafter", "Engine", "Failed",
    "FormatError", "GenerateOptions", "Generated", "ImageDrafter", "ImageFinished", "ImageModel", "ImageOptions",
    "ImagePreview", "ImageRun", "Model", "RoundReport", "RoundTrace", "Statistics", "TextFinished", "TextPiece",
    "TextResult", "TokenImageModel", "TokenImageOptions", "TokenOutput", "TokenScore", "UsageError", "Waiting",
    "certify", "certify_images", "distill", "generate", "generate_batch", "generate_images", "law", "load_image_model",
    "set_threads", "train_classifier", "train_cspd", "train_dflash", "train_dit", "train_dlm", "train_free", "train_mar",
    "train_medusa", "train_ngram", "train_tidar", "train_tidar_model",
]
