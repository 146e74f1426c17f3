"""Pagoda's analytical table: FLOP and bytes of five networks at eleven batches.

Prashanthi S. K., K. K. Sahoo, A. R. Saikia, P. Gupta, A. V. Joshi, P. Pansari, Y. Simmhan, "Pagoda:
An energy and time roofline study for DNN workloads on edge accelerators". Its notebook
``src/analysis/roofline_batch_size_expt.ipynb`` (Apache-2.0) has the table and 25 measured points,
which ship with Mansard. The times are of inference: the notebook divides the table's work, which is
that of a forward pass, by them. docs/understand/pagoda.md rebuilds the table number by number.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from mansard.analytics.data.published.cells import read_table
from mansard.core.records import Record

# In the order of the table. The formats are those that PyTorch computes in by default:
# convolutions of fp32 tensors in TF32, matrix products in FP32 (its notes on CUDA semantics).
USUAL_FORMATS = MappingProxyType(
    {
        "mobilenet_v3_large": "tf32",
        "resnet50": "tf32",
        "yolov8n": "tf32",
        "word_lstm": "fp32",
        "bert_large": "fp32",
    }
)
NETWORKS = tuple(USUAL_FORMATS)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEASURED_BATCHES = (1, 4, 8, 16, 32, 64)  # no network at all of them
MODE = "MAXN"

# The median of 10,000 small additions that PyTorch was asked for, one by one, in MAXN on an AGX
# Orin: branes-ai/graphs at b6c5e829c33a, hardware_registry/cuda/jetson_orin_agx_maxn/
# kernel_dispatch.log (MIT). What an operator costs in a framework that starts each by itself.
OPERATOR_LAUNCH_S = 61.0e-6


class Count(Record, frozen=True, kw_only=True):
    """One row of the table: a network at a batch, FLOP and bytes of a forward pass."""

    network: str  # in our words
    pagoda_name: str
    batch: int
    work_flop: int
    parameter_bytes: int
    traffic_bytes: int


def read_counts() -> tuple[Count, ...]:
    """All 55 rows, in the order of the table."""
    return tuple(
        Count(
            network=row.cells["network"],
            pagoda_name=row.cells["pagoda_name"],
            batch=int(row.cells["batch"]),
            work_flop=int(row.cells["work_flop"]),
            parameter_bytes=int(row.cells["parameter_bytes"]),
            traffic_bytes=int(row.cells["traffic_bytes"]),
        )
        for row in read_table(Path(__file__).with_name("counts.csv")).rows
    )
