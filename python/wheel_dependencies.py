"""What the package depends on: a provider of dynamic metadata for scikit-build-core."""

import os


def dynamic_metadata(field, settings=None):
    """NumPy; and the torch of environment variable FORERUN_WHEEL_TORCH (a version), whose libraries a wheel of `make wheel` uses."""
    torch = os.environ.get("FORERUN_WHEEL_TORCH")
    return ["numpy>=1.26"] + ([f"torch=={torch}"] if torch else [])
