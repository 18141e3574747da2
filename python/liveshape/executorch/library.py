"""Finds libliveshape_executorch.so and loads it into this process."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path

LIBRARY = Path(
    os.environ.get(
        "LIVESHAPE_EXECUTORCH_LIBRARY", Path(__file__).parent / "libliveshape_executorch.so"
    )
)
BACKEND = "LiveshapeBackend"


@cache
def load() -> None:
    """Register the backend with ExecuTorch's runtime. A second call does nothing."""
    if not LIBRARY.exists():
        raise ImportError(
            f"liveshape.executorch: {LIBRARY} is not built. In a checkout: make executorch. It "
            "needs the headers of the executorch wheel, so `pip install .` alone leaves it out."
        )
    # The extension brings libexecutorch.so, which ours then finds by its name; there is one
    # registry in a process, and it is that library's.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.extension.pybindings import portable_lib
    try:
        ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(
            f"liveshape.executorch: {LIBRARY} does not load with this executorch: {error}. "
            "Build it against the installed one: make executorch"
        ) from error
    if BACKEND not in portable_lib._get_registered_backend_names():
        raise ImportError(f"liveshape.executorch: {LIBRARY} did not register {BACKEND}")
