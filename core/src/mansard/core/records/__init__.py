"""The rows everyone exchanges. Units stand in the names; ``None`` always has a reason.

Every record is frozen, refuses fields it does not know, and keeps in ``unknown``
one reason for each of its fields that is ``None``: a missing number never looks
like a zero and never goes without an explanation.
"""

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.machine import (
    Board,
    Cache,
    CpuCluster,
    Gpu,
    MachineIdentity,
    ModeCommands,
    PowerMode,
)
from mansard.core.records.published import (
    PublishedMode,
    PublishedRate,
    PublishedRun,
    RateQuantity,
    RateWorkUnit,
)
from mansard.core.records.run import Manifest, Measurement
from mansard.core.records.score import LAYER_COUNTS, LayerScore, ModelScore, Optimizer, Phase
from mansard.core.records.trial import (
    Conditions,
    EnergyWindow,
    Family,
    MemoryKind,
    Operands,
    PowerSample,
    Processor,
    RailEnergy,
    Scope,
    Spread,
    Trial,
)

__all__ = [
    "LAYER_COUNTS",
    "Board",
    "Cache",
    "Conditions",
    "CpuCluster",
    "EnergyWindow",
    "Family",
    "Gpu",
    "LayerScore",
    "MachineIdentity",
    "Manifest",
    "Measurement",
    "MemoryKind",
    "ModeCommands",
    "ModelScore",
    "Operands",
    "Optimizer",
    "Phase",
    "PowerMode",
    "PowerSample",
    "Processor",
    "PublishedMode",
    "PublishedRate",
    "PublishedRun",
    "RailEnergy",
    "RateQuantity",
    "RateWorkUnit",
    "Record",
    "Schema",
    "Scope",
    "Source",
    "Spread",
    "Trial",
]
