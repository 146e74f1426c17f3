"""Figures of real boards that ship with Mansard, each table with its source and licence.

Figures only, taken from files that their authors published under MIT or Apache-2.0; the files in
``reference/`` have one row for each, with the file that it stands in.
docs/reference/reference-set.md says by which rule they were taken; a test takes them again.
``mansard demo`` shows all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
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
