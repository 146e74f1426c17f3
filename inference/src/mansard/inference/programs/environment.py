"""Variables of the environment that are part of what a program is: those known to change its speed.

Left out, a run with one thread would answer for a run with four. Sources: the documents of OpenMP,
OpenBLAS, oneMKL, Numba, CUDA, NCCL, cuDNN, TensorRT, ONNX Runtime, PyTorch, TensorFlow, XLA, JAX,
Python, glibc and the dynamic linker.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.core.text import MASK, is_secret_name, masked

MOST_BYTES = 4096  # of one value; of a longer one its hash is part of the identity
_KNOWN = frozenset(
    {
        *("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS", "TBB_NUM_THREADS", "ARMPL_NUM_THREADS"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_BIND_NOW", "GLIBC_TUNABLES"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONMALLOC", "PYTHONHASHSEED"),
        *("PYTHON_GIL", "PYTHON_JIT", "VIRTUAL_ENV", "CONDA_PREFIX", "TOKENIZERS_PARALLELISM"),
        *("JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"),
        "JULIA_NUM_THREADS",
    }
)
_PREFIXES = (
    *("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "DNNL_", "ONEDNN_"),
    *("NUMBA_", "NUMEXPR_", "CUDA_", "CUBLAS_", "CUDNN_", "CUPY_", "NCCL_", "NVIDIA_"),
    *("TRT_", "TENSORRT_", "ORT_", "OV_", "OPENVINO_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_"),
    *("TF_ENABLE_", "TF_DISABLE_", "TF_NUM_", "TF_XLA_", "TF_GPU_", "TF_CUDNN_", "TF_FORCE_"),
    *("XLA_", "JAX_", "TVM_", "GGML_", "LLAMA_", "VLLM_", "MALLOC_", "KINETO_"),
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_ROUNDS = 100_000  # of PBKDF2: to guess a short password from its hash takes long


def is_known(name: str) -> bool:
    """Whether a variable is part of every program's identity."""
    return name in _KNOWN or name.startswith(_PREFIXES)


def read_environment(
    names: Sequence[str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables that are set of the known ones and of ``names``; raises UsageError.

    The value of a secret is replaced by a hash that a guess takes long to find.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {name!r} is no name of a variable", fix="write --env NAME")
    wanted = sorted(name for name in environment if is_known(name) or name in names)
    return {name: _shown(name, environment[name]) for name in wanted}


def _shown(name: str, value: str) -> str:
    safe = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if is_secret_name(name) or masked(f"{name}={safe}") != f"{name}={safe}":
        return f"{MASK} {secret_hash(value)}"
    if len(safe) > MOST_BYTES:
        digest = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return f"{len(safe)} characters, {digest}"
    return safe


def secret_hash(value: str) -> str:
    """A short hash of a secret."""
    data = value.encode("utf-8", "surrogateescape")
    return hashlib.pbkdf2_hmac("sha256", data, b"mansard program", _ROUNDS).hex()[:16]
