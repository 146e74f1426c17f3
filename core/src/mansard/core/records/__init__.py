"""The rows everyone exchanges. Units stand in the names; ``None`` always has a reason.

Every record is frozen, refuses fields it does not know, and keeps in ``unknown``
one reason for each of its fields that is ``None``: a missing number never looks
like a zero and never goes without an explanation.
"""

from mansard.core.records.accuracy import Accuracy
from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.build import ENGINES_FOLDER, EngineBuild
from mansard.core.records.counters import (
    CounterRun,
    KernelCounters,
    MemoryLevel,
    TrafficCount,
    WorkCount,
)
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
    LayerKind,
    PublishedLayer,
    PublishedMode,
    PublishedRate,
    PublishedRun,
    RateQuantity,
    RateWorkUnit,
)
from mansard.core.records.run import Manifest
from mansard.core.records.score import LAYER_COUNTS, LayerScore, ModelScore, Optimizer, Phase
from mansard.core.records.trial import (
    Conditions,
    EnergyWindow,
    Family,
    MemoryKind,
    MemoryUse,
    Operands,
    PowerSample,
    Processor,
    RailEnergy,
    Scope,
    Spread,
    Trial,
)
from mansard.core.records.workload import (
    CHAIN_LENGTHS,
    WHOLE,
    Copies,
    Launching,
    LayerTime,
    Measurement,
    NamedWindow,
    NetworkPart,
    ProgramRepetition,
    ProgramRun,
    Waiting,
    chain_length,
    chain_name,
)

__all__ = [
    "CHAIN_LENGTHS",
    "ENGINES_FOLDER",
    "LAYER_COUNTS",
    "WHOLE",
    "Accuracy",
    "Board",
    "Cache",
    "Conditions",
    "Copies",
    "CounterRun",
    "CpuCluster",
    "EnergyWindow",
    "EngineBuild",
    "Family",
    "Gpu",
    "KernelCounters",
    "Launching",
    "LayerKind",
    "LayerScore",
    "LayerTime",
    "MachineIdentity",
    "Manifest",
    "Measurement",
    "MemoryKind",
    "MemoryLevel",
    "MemoryUse",
    "ModeCommands",
    "ModelScore",
    "NamedWindow",
    "NetworkPart",
    "Operands",
    "Optimizer",
    "Phase",
    "PowerMode",
    "PowerSample",
    "Processor",
    "ProgramRepetition",
    "ProgramRun",
    "PublishedLayer",
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
    "TrafficCount",
    "Trial",
    "Waiting",
    "WorkCount",
    "chain_length",
    "chain_name",
]
