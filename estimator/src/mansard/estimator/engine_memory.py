"""What a network needs of the memory beside its weights: caches, activations, and its engine.

Weights, keys and values and the peak of activations are counted (``ModelScore``). What an engine
adds is not in any file: the table has what public logs and manuals say, as ranges.

CUDA context with its libraries: 0.33 GiB "non_torch_memory" (vLLM 14452), 0.5 GiB on an Orin Nano
(ace-step/ACE-Step-1.5 1192), 600 MiB with TensorRT's libraries (NVIDIA forum 56741), 749 MiB
"unaccounted" beside llama.cpp's own buffers (llama.cpp 27953).

cuBLAS: the recommended workspace is 4 MiB, from Hopper on 32 MiB (cuBLAS manual,
cublasSetWorkspace).

llama.cpp computes a prompt in parts of 512 tokens (n_ubatch). Its compute buffer of a 1.7B model is
300.75 MiB on an Orin (withcatai/node-llama-cpp 560): 512 tokens x 151,936 words x 4 bytes of logits
are 296.75 MiB of it. A server reserves logits for the last tokens alone: 505 MiB become 132 MiB
(GenerelSchwerz/llama.cpp pull request 62). So they lie between none and all; activations are fp32.
Attention is taken to be flash attention, which is on by default on CUDA.

vLLM runs 2048 tokens at once by default (max_num_batched_tokens) and 0.9 of all memory is its
(gpu_memory_utilization; vLLM's documentation of the engine's arguments). CUDA graphs took 0.17 GiB
(noonghunna/club-3090 127) to 0.36 GiB (gpustack/runner 251); activations 0.22 GiB (vllm-ascend
8289) to 1.77 GiB (vLLM 14452) in its own profile.

TensorRT: an execution context holds the activations of all layers and the scratch memory of one,
at most the workspace (manual, "How TensorRT Works"); a recorded build of 23 MB of weights had no
scratch memory. To build an engine the host holds at least two copies of the weights (same page);
TensorRT-LLM 236 reports 600 to 1000 GB for 280 GB of weights, 2.1 to 3.6 times; TensorRT-Edge-LLM
30 reports 3 to 4 bytes for each parameter, whatever format the engine has. The libraries of
kernels of the builder took 928 MiB, the whole build 1655 MiB in a recorded log.

ONNX Runtime: its arena grows to the next power of two (OrtCUDAProviderOptions,
arena_extend_strategy), so it holds up to twice the activations. While it loads, weights are there
again as they were read and as kernels want them: on a CPU here the peak of a load was 1.0 (a
decoder of 4.4 GB), 1.6 (vgg16) and 2.5 times the weights (resnet50).

What an engine file of TensorRT holds is there twice while it is read: as the file, and on the
device (manual, "How TensorRT Works").
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import ModelScore
from mansard.estimator.summary import totals

Engine = Literal["llama.cpp", "vllm", "tensorrt", "ort"]
_MIB = 1 << 20
_LOGIT_BYTES = 4
# On a CPU there is no CUDA context, but a process. One that imports ONNX Runtime and nothing else
# has 45 MB; a server adds threads, buffers and Python. llama.cpp's, in Python, had 36 to 44 MB
# above what is counted of three models (measured here: docs/use/fitting.md).
_CPU_PROGRAM = (30 * _MIB, 150 * _MIB)


class MemoryNeed(msgspec.Struct, frozen=True):
    """One part of what is needed, from ``low_bytes`` to ``high_bytes``."""

    part: str
    low_bytes: int
    high_bytes: int
    source: str


class EngineMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine adds; ``context`` and ``workspace`` in bytes, least and most.

    ``n_new``: tokens of a prompt that it computes at once; None: all of them. Then each sequence
    of a batch is computed at once as well. ``activations``: by which factor its memory for them
    may be above the counted peak. ``copies``: of the weights while they are loaded, at most.
    ``share``: of all memory that it may have. ``program``: the process, where there is no GPU.
    """

    context: tuple[int, int]
    workspace: tuple[int, int]
    n_new: int | None = None
    activations: float = 1.0
    copies: float = 0.0
    share: float | None = None
    program: tuple[int, int] = _CPU_PROGRAM
    has_logits: bool = False  # of every token that it computes at once
    source: str


ENGINES: Mapping[Engine, EngineMemory] = MappingProxyType(
    {
        "llama.cpp": EngineMemory(
            context=(338 * _MIB, 749 * _MIB),
            workspace=(4 * _MIB, 32 * _MIB),
            n_new=512,
            activations=2.0,  # fp32 instead of fp16
            has_logits=True,
            program=(30 * _MIB, 60 * _MIB),
            source="issues vLLM 14452, llama.cpp 27953, node-llama-cpp 560; cuBLAS manual",
        ),
        "vllm": EngineMemory(
            context=(338 * _MIB, 749 * _MIB),
            workspace=(174 * _MIB, 369 * _MIB),
            n_new=2048,
            activations=2.0,
            share=0.9,
            has_logits=True,
            source="issues vLLM 14452, llama.cpp 27953, club-3090 127, gpustack/runner 251",
        ),
        "tensorrt": EngineMemory(
            context=(338 * _MIB, 752 * _MIB),
            workspace=(0, 32 * _MIB),
            activations=2.0,  # scratch memory of one layer
            copies=1.0,
            source="issue vLLM 14452, a recorded log of trtexec; TensorRT manual",
        ),
        "ort": EngineMemory(
            context=(338 * _MIB, 749 * _MIB),
            workspace=(4 * _MIB, 32 * _MIB),
            activations=2.0,
            copies=1.5,
            source="issues vLLM 14452, llama.cpp 27953; cuBLAS manual; arena_extend_strategy",
        ),
    }
)

_BUILDER = (928 * _MIB, 1655 * _MIB)
_BUILD_COPIES = (2.0, 4.0)
_BUILD_PARAMETER_BYTES = (3.0, 4.0)


def find_engine_memory(engine: str) -> EngineMemory:
    """The row of an engine; raises UsageError for an unknown name."""
    for name, memory in ENGINES.items():
        if name == engine:
            return memory
    raise UsageError(f"no engine is called {engine!r}", fix=f"use {', '.join(ENGINES)}")


def memory_needs(
    score: ModelScore,
    engine: EngineMemory,
    *,
    n_sequences: int = 1,
    vocabulary: int = 0,
    has_gpu: bool = True,
) -> tuple[MemoryNeed, ...]:
    """What a network needs while it runs.

    ``score``: of the call that needs most. ``n_sequences``: for each of which there is a cache of
    that size. ``vocabulary``: of a language model whose score has the logits of one token alone.
    Raises ModelError where the weights or the peak are not known.
    """
    weights = totals(score).weight_bytes
    low, high = score.fused_peak_bytes, score.peak_activation_bytes
    if weights is None or low is None or high is None:
        why = score.unknown.get("peak_activation_bytes", "a layer is unknown")
        raise ModelError(f"its memory is unknown: {why}", where=score.model)
    high = round(engine.activations * high)
    if engine.has_logits:
        high += (engine.n_new or 1) * vocabulary * _LOGIT_BYTES
    cache = n_sequences * (score.kv_cache_bytes or 0)
    needs = [MemoryNeed("weights", weights, weights, "counted, as they are stored")]
    if cache:
        needs.append(MemoryNeed("KV cache", cache, cache, "counted"))
    if engine.copies:
        most = round(engine.copies * weights)
        needs.append(MemoryNeed("loading", 0, most, "copies of weights while they are read"))
    needs.append(MemoryNeed("activations", min(low, high), high, "counted peak, to the engine's"))
    if has_gpu:
        needs.append(MemoryNeed("workspace", *engine.workspace, engine.source))
        needs.append(MemoryNeed("CUDA context", *engine.context, engine.source))
    else:
        needs.append(MemoryNeed("program", *engine.program, "processes without a model"))
    return tuple(needs)


def build_needs(score: ModelScore, *, is_language_model: bool) -> tuple[MemoryNeed, ...]:
    """What TensorRT needs to build an engine file; raises ModelError where it is not known."""
    sums = totals(score)
    size = sums.parameters if is_language_model else sums.weight_bytes
    if size is None:
        raise ModelError("its weights are unknown: a layer is unknown", where=score.model)
    factors = _BUILD_PARAMETER_BYTES if is_language_model else _BUILD_COPIES
    source = "TensorRT-Edge-LLM 30" if is_language_model else "TensorRT manual, TensorRT-LLM 236"
    low, high = (round(factor * size) for factor in factors)
    return (
        MemoryNeed("weights to build", low, high, source),
        MemoryNeed("builder", *_BUILDER, "a recorded log of trtexec"),
    )
