"""Plans of runs of networks, and of builds of engine files: which files, on which engine, how."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mansard.core.records import WHOLE, Copies, NetworkPart, Phase, Record, Schema, Waiting
from mansard.measuring.plan import PlannedTrial, RunPlan

# At most, of one engine file, or without a word of its builder: what builds is taken for hung then.
BUILDING_S = 4 * 3600.0


class InputSpec(Record, frozen=True, kw_only=True):
    """What one input of a network is fed.

    ``uniform``: random numbers from ``low`` to ``high``; ``integers``: random ones of them,
    ``high`` excluded; ``ones``; ``file``: the array of this name in the trial's ``inputs_file``.
    """

    name: str
    type_name: str  # as NumPy calls it
    shape: tuple[int, ...]
    fill: Literal["uniform", "integers", "ones", "file"]
    low: float = 0.0
    high: float = 1.0


class ShapeRange(Record, frozen=True, kw_only=True):
    """The shapes that an engine file is built for, of one input with open dimensions."""

    least: tuple[int, ...]
    usual: tuple[int, ...]  # that it is tuned for
    most: tuple[int, ...]


class BuildSettings(Record, frozen=True, kw_only=True):
    """How an engine file is built; all of it is in the file's key."""

    optimization_level: int | None = None
    workspace_bytes: int | None = None
    dla_core: int | None = None
    with_fallback: bool = True  # to the GPU, of layers that the DLA lacks
    compute_capability: str | None = None  # to build for, as "8.6", without a device
    ranges: dict[str, ShapeRange] = msgspec.field(
        default_factory=dict
    )  # of inputs with open dimensions, by name
    # .npz of input arrays, whose first dimension is the samples; "": none
    calibration_file: str = ""
    calibration_hash: str = ""
    dataset: str = "random"  # in the engine file's name

    def __post_init__(self) -> None:
        absent = {
            name: reason
            for name, reason in _BUILDERS_OWN.items()
            if getattr(self, name) is None and name not in self.unknown
        }
        if absent:
            msgspec.structs.force_setattr(self, "unknown", {**self.unknown, **absent})
        super().__post_init__()

    @property
    def options(self) -> dict[str, str]:
        """Those that can change a time or that loading needs, where they are not the builder's."""
        found = {}
        if self.ranges:
            found["open"] = ",".join(self.ranges)  # what loads the file gives their shapes
        if self.optimization_level is not None:
            found["optimization_level"] = str(self.optimization_level)
        if self.workspace_bytes is not None:
            found["workspace_bytes"] = str(self.workspace_bytes)
        if self.dla_core is not None:
            found["dla_core"] = str(self.dla_core)
            found["dla_rest"] = "on the GPU" if self.with_fallback else "refused"
        return found


_BUILDERS_OWN = {
    "optimization_level": "the builder's own",
    "workspace_bytes": "the builder's own",
    "dla_core": "it is built for the GPU",
    "compute_capability": "that of the device that builds",
}


class BuildTrial(PlannedTrial, frozen=True, kw_only=True):
    """One engine file to be built; files are named as they are called in the folder of files."""

    model: str
    model_hash: str
    file: str
    file_hash: str
    input_specs: tuple[InputSpec, ...]  # of an input with a range: its usual shape
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    engine: str
    settings: BuildSettings
    engine_file: str  # that is written

    @property
    def title(self) -> str:
        """What is shown while it is built."""
        batch = "" if self.batch is None else f" × {self.batch}"
        return f"building {self.model}{batch} {self.precision}, {self.engine}"


class BuildPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of builds. Of its protocol nothing is used."""

    schema: ClassVar[Schema] = Schema("build-plan", 1)
    kind: ClassVar[str] = "mansard.inference.builds:BUILDS"

    trials: tuple[BuildTrial, ...]


class NetworkTrial(PlannedTrial, frozen=True, kw_only=True):
    """One network to be run. Files are named as they are called in the folder of files."""

    model: str
    model_hash: str  # as that of ModelScore: without the weights
    file: str  # dimensions fixed, weights present, nodes labelled: ``preparing``
    file_hash: str  # of its content, and of the weights beside it
    inputs_file: str  # .npz; empty: no input is read from one
    inputs_hash: str
    input_specs: tuple[InputSpec, ...]
    inputs: str  # the same in words
    engine: str
    provider: str
    precision: str
    batch: int | None
    dimensions: dict[str, int]
    n_threads: int | None  # None: as many as the plan has CPUs
    copies: Copies = "none"
    waiting: Waiting = "spin"
    with_graph: bool = False  # as a CUDA graph, where the engine can
    with_layers: bool = True
    phase: Phase = "inference"
    part: NetworkPart = WHOLE  # what was cut out of a network to be run alone
    rest_s: float = 0.0  # before it is loaded, with nothing of ours running
    meter_period_s: float = 0.0  # between two readings of the meters; 0: the meters' own
    engine_file: str = ""  # that the engine loads, built before; "": it loads ``file`` itself

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        batch = "" if self.batch is None else f" × {self.batch}"
        return f"{self.model}{batch} {self.precision}, {self.engine} {self.provider}"


class NetworkPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of networks."""

    schema: ClassVar[Schema] = Schema("network-plan", 1)
    kind: ClassVar[str] = "mansard.inference.networks:NETWORKS"

    trials: tuple[NetworkTrial, ...]
