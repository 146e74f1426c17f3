"""The plan of a run of a program, as a record: which command, and how often."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

import msgspec

from mansard.core.records import Schema
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.protocol import PROTOCOLS, Profile, Protocol


class ProgramTrial(PlannedTrial, frozen=True, kw_only=True):
    """One program to be run; the fields are those of ``ProgramRun``.

    ``command`` is masked: what is run comes beside the plan, which could be kept.
    """

    workload: str
    command: tuple[str, ...]
    folder: str
    program_hash: str
    metric_pattern: str | None
    environment: dict[str, str]

    @property
    def title(self) -> str:
        """What is shown while it runs."""
        return self.workload


class ProgramPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of a program.

    Of its protocol ``n_blocks_min`` is the least number of times that the program runs;
    ``n_accepted_min`` that from which its wall times can be known well enough; ``time_cap_s`` the
    time after which it is not started again; ``stream_interval`` how well they are to be known.
    """

    schema: ClassVar[Schema] = Schema("program-plan", 2)
    kind: ClassVar[str] = "mansard.inference.programs.trial:PROGRAMS"

    trials: tuple[ProgramTrial, ...]


_CAPS: MappingProxyType[Profile, tuple[int, float]] = MappingProxyType(
    {"brief": (1, 10.0), "quick": (1, 60.0), "full": (3, 600.0)}
)
_N_FOR_INTERVAL = 6  # below six values there is no 95 % interval: ``sampling.interval_rank``


def program_protocol(profile: Profile, n_runs: int | None = None) -> Protocol:
    """How often a program runs: until its time is known, or exactly ``n_runs`` times."""
    n_least, time_cap_s = _CAPS[profile] if n_runs is None else (n_runs, 0.0)
    return msgspec.structs.replace(
        PROTOCOLS[profile],
        n_blocks_min=n_least,
        n_accepted_min=_N_FOR_INTERVAL,
        time_cap_s=time_cap_s,
    )
