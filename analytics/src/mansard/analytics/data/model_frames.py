"""The frames that models and decisions exchange, one column per field, units in the names.

``modes`` says which power modes there are, ``coefficients`` what each of them can do and costs,
``groups`` what a network needs, ``predictions`` what a network takes in a mode, ``observations``
what was measured or published of networks in modes. A null always has its reason in ``reason``.
"""

from __future__ import annotations

from types import MappingProxyType

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.core.precision import work_unit

# One row for each power mode of a device. A device is one processor of one machine.
MODE_SCHEMA: FrameSchema = {
    "device": pl.String,  # its label: "Jetson AGX Orin 64GB GPU"
    "mode": pl.String,  # its name, unique within the device
    "gpu_hz": pl.Float64,
    "memory_hz": pl.Float64,
    "cpu_hz": pl.Float64,
    "n_sms": pl.Int64,
    "n_cpus": pl.Int64,
    "power_limit_w": pl.Float64,
}

# What its settings are called in sentences.
SETTING_WORDS = MappingProxyType(
    {
        "gpu_hz": "GPU clock",
        "memory_hz": "memory clock",
        "cpu_hz": "CPU clock",
        "n_sms": "number of SMs",
        "n_cpus": "number of cores",
        "power_limit_w": "power limit",
    }
)

# What a mode can do and what it costs: one row for each mode and coefficient. ``low`` and
# ``high`` span 95 %. Where the value is modelled they hold the error of leaving a mode out.
COEFFICIENT_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "quantity": pl.String,  # a key of QUANTITIES
    "subject": pl.String,  # a precision, a memory level, or "" where there is but one
    "unit": pl.String,  # "tensor core" or "CUDA core" (a CPU's work too) of work, else ""
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "source": pl.String,  # a core.records.Source
    "error": pl.Float64,  # median relative error when one mode is left out; null if measured
    "n_fitted": pl.Int64,  # modes that the value was fitted on; null if measured
    "is_extrapolated": pl.Boolean,  # outside the clocks of the modes it was fitted on
    "reason": pl.String,  # why there is no value
}
# What work is counted in depends on the precision: ``quantity_unit``.
QUANTITIES = MappingProxyType(
    {
        "peak": "{}/s",
        "bandwidth": "B/s",
        "launch": "s",  # to start one fused group
        "flop_energy": "J/{}",
        "byte_energy": "J/B",
        "constant_power": "W",
    }
)


def quantity_unit(quantity: str, subject: str) -> str:
    """The unit of a coefficient; "" of a quantity that is not known."""
    return QUANTITIES.get(quantity, "").format(work_unit(subject))


# What a network needs: one row for each fused group of a score, in the order of the network.
GROUP_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "group": pl.Int64,  # index of the node that heads it
    "name": pl.String,
    "op_class": pl.String,  # a class of predict.groups: "conv", "matmul", "elementwise", ...
    "tensor_precision": pl.String,  # null where nothing of it could run on tensor cores
    "tensor_flop": pl.Float64,
    "cuda_precision": pl.String,  # null where nothing of it runs on CUDA cores
    "cuda_flop": pl.Float64,
    "function_flop": pl.Float64,  # of these, exponentials and other functions
    "traffic_bytes": pl.Float64,
    "n_launches": pl.Int64,  # 0 where it only renames a tensor
    # Of the layer with most multiply-adds (predict.kernels); null where there is none.
    "kernel": pl.String,  # the kind of its kernel
    "operand_bytes": pl.Float64,  # what its sums read, each input as often as it is in one
    "result_bytes": pl.Float64,
    "weight_bytes": pl.Float64,
    "reason": pl.String,  # why work or traffic is null
}

# What the ends of a prediction's intervals mean. Only on "spread" does a probability stand.
INTERVALS = MappingProxyType(
    {
        "spread": "95 % by errors on data that was left out, or by repetitions; log-normal",
        "bounds": "what any network can do: certain, without a value between them",
        "roof": "of the ceilings and costs alone: the network takes at best that",
    }
)

# What a network takes in a mode: one row for each device, mode and score.
PREDICTION_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "score_id": pl.String,
    "network": pl.String,  # as it is shown
    "batch": pl.Int64,
    "precision": pl.String,
    "phase": pl.String,
    "latency_s": pl.Float64,  # of one batch; low and high span 95 %
    "latency_low_s": pl.Float64,
    "latency_high_s": pl.Float64,
    "energy_j": pl.Float64,  # of one batch
    "energy_low_j": pl.Float64,
    "energy_high_j": pl.Float64,
    "power_w": pl.Float64,  # energy over latency
    "power_low_w": pl.Float64,
    "power_high_w": pl.Float64,
    "time_bound": pl.String,  # "compute", "memory", "launch", or "power" where a cap decides
    "energy_bound": pl.String,  # "work", "traffic" or "constant"
    "interval": pl.String,  # a key of INTERVALS; null where there is no interval
    "source": pl.String,
    "is_extrapolated": pl.Boolean,
    "is_calibrated": pl.Boolean,
    "reason": pl.String,  # why latency or energy is null
    "notes": pl.String,  # what the numbers are without; null where there is nothing to say
}

# What was measured, or published by others, of networks in modes.
OBSERVATION_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "network": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "phase": pl.String,
    "engine": pl.String,  # what ran it; null of published ones, which say it in the citation
    "latency_s": pl.Float64,
    "latency_deviation": pl.Float64,  # of its natural logarithm, from repetitions in one run;
    "power_w": pl.Float64,
    "power_deviation": pl.Float64,  # null where nothing tells; how runs differ is in neither
    "energy_j": pl.Float64,  # of a batch, as metered; null: only its time and power are known
    "cpu_s": pl.Float64,  # CPU time of a call that one thread ran; null of all others
    "source": pl.String,
    "citation": pl.String,  # of published ones: where from; else null
    "reason": pl.String,  # why latency or power is null
}

# Layers that others timed of networks in modes.
PUBLISHED_LAYER_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "network": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,  # of the network
    "index": pl.Int64,  # in its file
    "name": pl.String,
    "parts": pl.List(pl.String),  # names of the network's nodes
    "kind": pl.String,  # as in PublishedLayer
    "op_type": pl.String,
    "layer_precision": pl.String,  # of what it writes
    "tactic": pl.String,
    "seconds_s": pl.Float64,  # of one call of the network
    "share": pl.Float64,
    "citation": pl.String,
}

# Of predictions and observations: what they are about, beside the mode.
PREDICTION_KEY = ("device", "network", "batch", "precision", "phase")
