"""Stands in for cuda-bindings. STAND_IN_CUDA=cudart: an older cuda-python, which has none."""

import os

if os.environ.get("STAND_IN_CUDA") == "cudart":
    raise ModuleNotFoundError("No module named 'cuda.bindings'", name="cuda.bindings")
