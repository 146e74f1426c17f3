"""The content of folders of runs, read once and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from mansard.core.records import (
    Accuracy,
    ContentionPoint,
    GenerationRun,
    Manifest,
    Measurement,
    ModelScore,
    MultiRun,
    OffloadRun,
    ProgramRun,
)
from mansard.estimator.zoo.operators import NAMES as OPERATOR_NAMES


@dataclass(frozen=True, eq=False)
class OperatorRows:
    """Rows of the zoo's operators, which predictions of networks rest on; they are no networks."""

    measurements: tuple[Measurement, ...] = ()
    scores: tuple[ModelScore, ...] = ()
    layers: pl.DataFrame = field(default_factory=pl.DataFrame)


@dataclass(frozen=True, eq=False)
class Dataset:
    """All runs of some folders. Frames are described in ``data.store``; seconds, bytes, FLOP.

    ``runs`` has one row per run, ``trials`` one per trial, ``energy`` one per rail of each
    window, ``layers`` one per layer of each score. There can be tens of millions of
    ``repetitions`` (accepted or not) and power ``samples``, so those two are scans of files:
    collect what is needed of them. ``notes`` says in one line each what was put aside or
    looks odd.

    All of these hold runs of kernels only, so roofs are never computed from other runs. Runs of
    networks and programs are ``workload_manifests``, their rows ``measurements`` (with
    the times of layers), ``programs`` and ``generations`` of servers; so are runs of several
    networks at once, ``multi``, of demands on memory beside others, ``contention``, and of
    hierarchical inference with a server, ``offloads``. Runs of accuracy, which are in no power
    mode, are ``accuracy_manifests``, their rows ``accuracies``.
    """

    locations: tuple[str, ...]  # folders of runs or datasets, and URLs
    runs: pl.DataFrame
    trials: pl.DataFrame
    repetitions: pl.LazyFrame
    energy: pl.DataFrame
    samples: pl.LazyFrame
    layers: pl.DataFrame
    manifests: tuple[Manifest, ...]
    scores: tuple[ModelScore, ...]
    workload_manifests: tuple[Manifest, ...]
    accuracy_manifests: tuple[Manifest, ...]
    measurements: tuple[Measurement, ...]
    programs: tuple[ProgramRun, ...]
    generations: tuple[GenerationRun, ...]
    accuracies: tuple[Accuracy, ...]
    multi: tuple[MultiRun, ...]
    contention: tuple[ContentionPoint, ...]
    offloads: tuple[OffloadRun, ...]
    notes: tuple[str, ...]
    operators: OperatorRows = OperatorRows()

    def without_operators(self) -> Dataset:
        """These rows with the zoo's operators apart, as every dataset that is opened has them."""
        names = frozenset(OPERATOR_NAMES)
        is_operators = pl.col("model").is_in(OPERATOR_NAMES)
        return replace(
            self,
            measurements=tuple(row for row in self.measurements if row.model not in names),
            scores=tuple(score for score in self.scores if score.model not in names),
            layers=self.layers.filter(~is_operators),
            operators=OperatorRows(
                tuple(row for row in self.measurements if row.model in names),
                tuple(score for score in self.scores if score.model in names),
                self.layers.filter(is_operators),
            ),
        )

    def with_operators(self) -> Dataset:
        """These rows with the zoo's operators among the networks."""
        rows = self.operators
        return replace(
            self,
            measurements=(*self.measurements, *rows.measurements),
            scores=(*self.scores, *rows.scores),
            layers=self.layers if rows.layers.is_empty() else pl.concat([self.layers, rows.layers]),
            operators=OperatorRows(),
        )

    @property
    def all_manifests(self) -> tuple[Manifest, ...]:
        """Those of kernels, then those of networks and programs, then those of accuracy."""
        return (*self.manifests, *self.workload_manifests, *self.accuracy_manifests)

    def manifest(self, run_id: str) -> Manifest:
        """The manifest of one run; raises KeyError for a run that is not here."""
        for manifest in self.manifests:
            if manifest.run_id == run_id:
                return manifest
        raise KeyError(run_id)
