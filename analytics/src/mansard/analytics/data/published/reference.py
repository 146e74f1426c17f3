"""Figures of real boards that ship with Mansard, each table with its source and licence.

Figures only, taken from files that their authors published under MIT or Apache-2.0; the files in
``reference/`` have one row for each, with the file that it stands in.
docs/reference/reference-set.md says by which rule they were taken; a test takes them again.

Pagoda: Prashanthi S. K., K. K. Sahoo, A. R. Saikia, P. Gupta, A. V. Joshi, P. Pansari, Y.
Simmhan, "Pagoda: An energy and time roofline study for DNN workloads on edge accelerators";
its notebook ``src/analysis/roofline_batch_size_expt.ipynb`` (Apache-2.0) has both the table and
the 25 points. The times are of inference: the notebook divides the table's work, which is that
of a forward pass, by them. docs/understand/pagoda.md rebuilds the table number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from mansard.analytics.data.published.cells import read_table
from mansard.analytics.data.published.importing import Imported, import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published
from mansard.core.records import Record

FOLDER = Path(__file__).parent / "reference"


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """One shipped table: of which device, by whom, under which licence."""

    name: str  # its file is ``reference/<name>.csv``
    device: str
    authors: str
    repository: str
    commit: str
    path: str  # in the repository
    licence: str

    @property
    def file(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.name}.csv"

    @property
    def citation(self) -> str:
        """The source in a line, for pages."""
        return f"{self.authors}, {self.repository} at {self.commit}, {self.path} ({self.licence})"

    def read(self) -> Imported:
        """Its figures as records; raises InputError where the installation is broken."""
        origin = PublishedOrigin(device=self.device, processor="gpu", citation=self.citation)
        return import_table(self.file, origin)


def _of_branes(name: str, device: str, path: str) -> ReferenceTable:
    return ReferenceTable(
        name=name,
        device=device,
        authors="branes-ai",
        repository="github.com/branes-ai/graphs",
        commit="b6c5e829c33a",
        path=path,
        licence="MIT",
    )


_GPU = "hardware_registry/gpu"
RATES = (
    _of_branes(
        "agx_orin_64_rates", "Jetson AGX Orin 64GB", "hardware_registry and calibration_data"
    ),
    _of_branes("orin_nx_16_rates", "Jetson Orin NX 16GB", f"{_GPU}/jetson_orin_nx_16gb_gpu"),
    _of_branes("orin_nano_8_rates", "Jetson Orin Nano 8GB", f"{_GPU}/jetson_orin_nano_gpu"),
)
PAGODA_RUNS = ReferenceTable(
    name="pagoda_runs",
    device="Jetson AGX Orin 64GB",
    authors="Prashanthi S. K. and others, Pagoda",
    repository="github.com/dream-lab/pagoda",
    commit="34dbe0f4b218",
    path="src/analysis/roofline_batch_size_expt.ipynb",
    licence="Apache-2.0",
)


def write_reference(runs: Path, tables: tuple[ReferenceTable, ...] = RATES) -> None:
    """Put ``tables`` into a folder of runs, as ``mansard import`` would; raises StorageError."""
    for table in tables:
        write_published(runs, table.read())


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
    """One row of Pagoda's table: a network at a batch, FLOP and bytes of a forward pass."""

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
        for row in read_table(FOLDER / "pagoda_counts.csv").rows
    )
