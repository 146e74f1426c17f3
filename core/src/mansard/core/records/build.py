"""What was built before it could be run: an engine file, and how."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema, Source

# In the folder of runs: engine files, the rows beside them, and the runs of kind "builds".
ENGINES_FOLDER = "engines"


class EngineBuild(Record, frozen=True, kw_only=True):
    """One engine file, built by one version of one engine for one device; or why it was not.

    It stands beside the file as ``<engine_file>.json``, also where there is no file.
    """

    schema: ClassVar[Schema] = Schema("engine-build", 1)

    run_id: str
    trial_id: str
    source: Source
    model: str
    model_hash: str  # as that of ModelScore: without the weights
    file_hash: str  # of the ONNX file and the weights beside it
    engine: str  # as ``measure --engine`` calls it
    engine_version: str
    device: str  # that it is for: no other may load it
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    options: dict[str, str]  # that it was built with
    engine_file: str
    engine_hash: str | None
    engine_bytes: int | None
    build_s: float | None
    timing_cache: Literal["used", "new", "none"] | None  # what was known of kernels' times
    n_layers: int | None
    dla_share: float | None  # of the layers: those that a DLA core can run
    remarks: tuple[str, ...]  # the builder's warnings, the first few
    failure: str | None  # why it could not be built
    started_utc: str
    duration_s: float
    is_transient: bool = False  # a failure that may not be one later: the next command builds again
