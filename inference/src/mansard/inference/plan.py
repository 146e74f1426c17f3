"""The plan of a run of networks, as a record: which files, on which engine, how."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records import WHOLE, Copies, NetworkPart, Phase, Record, Schema, Waiting
from mansard.measuring.plan import PlannedTrial, RunPlan


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
