"""Figures of real boards that ship with Mansard, each table with its source and licence.

Rates of devices, and times of networks: of these ``RECORDINGS`` carry times from board to board.

Figures only, taken from files that their authors published under MIT or Apache-2.0; the files in
``reference/`` have one row for each, with the file that it stands in.
docs/reference/reference-set.md says by which rule they were taken; a test takes them again.
``mansard demo`` shows all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mansard.analytics.data.published.importing import Imported, import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import write_published

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


_of_branes = partial(
    ReferenceTable,
    authors="branes-ai",
    repository="github.com/branes-ai/graphs",
    commit="b6c5e829c33a",
    licence="MIT",
)
_GPU = "hardware_registry/gpu"
RATES = (
    _of_branes(
        name="agx_orin_64_rates",
        device="Jetson AGX Orin 64GB",
        path="hardware_registry and calibration_data",
    ),
    _of_branes(
        name="orin_nx_16_rates",
        device="Jetson Orin NX 16GB",
        path=f"{_GPU}/jetson_orin_nx_16gb_gpu",
    ),
    _of_branes(
        name="orin_nano_8_rates",
        device="Jetson Orin Nano 8GB",
        path=f"{_GPU}/jetson_orin_nano_gpu",
    ),
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


_YOLO = "benchmark/data/models"
_of_trtutils = partial(
    ReferenceTable,
    authors="Justin Davis",
    repository="github.com/justincdavis/trtutils",
    commit="471d1e925fd7",
    licence="MIT",
)
_of_netspresso = partial(
    ReferenceTable,
    authors="Nota",
    repository="github.com/Nota-NetsPresso/netspresso-trainer",
    commit="cdefe1253ae6",
    path="docs/benchmarks/device_matrix/tensorrt.md",
    licence="Apache-2.0",
)
RECORDINGS = (
    *(
        _of_trtutils(name=f"{name}_yolo_runs", device=device, path=f"{_YOLO}/{file}.json")
        for name, device, file in (
            ("agx_orin_64", "Jetson AGX Orin 64GB", "OrinAGX-64GB"),
            ("agx_orin_32", "Jetson AGX Orin 32GB", "OrinAGX-32GB"),
            ("orin_nx_16", "Jetson Orin NX 16GB", "OrinNX-16GB"),
            ("orin_nano_8", "Jetson Orin Nano 8GB", "OrinNano-8GB"),
            ("xavier_nx_8", "Jetson Xavier NX 8GB", "XavierNX-8GB"),
        )
    ),
    *(
        _of_netspresso(name=f"{name}_netspresso_runs", device=device)
        for name, device in (
            ("agx_orin", "Jetson AGX Orin"),
            ("orin_nano", "Jetson Orin Nano"),
            ("agx_xavier", "Jetson AGX Xavier"),
            ("xavier_nx", "Jetson Xavier NX"),
            ("tx2", "Jetson TX2"),
            ("nano", "Jetson Nano"),
        )
    ),
)


def write_reference(runs: Path, tables: tuple[ReferenceTable, ...] = RATES) -> None:
    """Put ``tables`` into a folder of runs, as ``data import`` would; raises StorageError."""
    for table in tables:
        write_published(runs, table.read())
