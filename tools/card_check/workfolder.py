"""Where the steps of a check leave what they saw, and how it is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.records import Gpu, Manifest, ProgramRun, Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows


@dataclass(frozen=True)
class WorkFolder:
    """A folder of results: one JSON file for each step, and ``runs`` as Mansard writes them."""

    path: Path

    @property
    def runs(self) -> Path:
        """The folder of runs, which ``mansard report`` reads too."""
        return self.path / "runs"

    def write(self, step: str, content: Any) -> None:
        """Keep what a step saw."""
        text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
        (self.path / f"{step}.json").write_text(text + "\n", encoding="utf-8")

    def read(self, step: str) -> Any:
        """What a step saw; None where it saw nothing."""
        path = self.path / f"{step}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def manifests(self) -> Iterator[tuple[Path, Manifest]]:
        """Each run's folder with its manifest, in the order of their start."""
        found = []
        for path in self.runs.glob("*/manifest.json"):
            found.append((path.parent, read_document(path, Manifest, self.runs)))
        yield from sorted(found, key=lambda pair: pair[1].started_monotonic_s)

    def kernel_rows(self) -> tuple[Trial, ...]:
        """The rows of all trials of kernels, whatever became of them."""
        return tuple(
            row
            for folder, manifest in self.manifests()
            if manifest.kind == "kernels"
            for row in read_rows(folder / "trials.jsonl", Trial, self.runs).rows
        )

    def program_runs(self) -> tuple[ProgramRun, ...]:
        """The rows of programs."""
        return tuple(
            row
            for folder, manifest in self.manifests()
            if manifest.kind == "programs"
            for row in read_rows(folder / "programs.jsonl", ProgramRun, self.runs).rows
        )

    def gpu(self) -> Gpu | None:
        """The card, as the runs have it."""
        return next((one.gpu for _, one in self.manifests() if one.gpu is not None), None)
