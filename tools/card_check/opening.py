"""The card that a step works with: this machine's, or one in software."""

from __future__ import annotations

from dataclasses import dataclass

from mansard.core.errors import DeviceError
from mansard.core.records import Gpu, Trial
from mansard.device.meters.meter import Meters
from mansard.measuring.kind import MeasurementKind
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.plan import KernelPlan, Probe, cuda_versions
from mansard.microbench.trial import KERNELS, kernel_kind
from tools.card_check import Software


@dataclass(frozen=True)
class Card:
    """An open GPU with its meters, and the versions by which trials are planned."""

    opened: OpenGpu
    meters: Meters
    versions: dict[str, str]
    notes: tuple[str, ...] = ()
    is_software: bool = False

    @property
    def gpu(self) -> Gpu:
        """As CUDA describes it."""
        return self.opened.gpu

    @property
    def kind(self) -> MeasurementKind[KernelPlan, Trial]:
        """What measures kernels on it."""
        return kernel_kind(gpu=self.opened) if self.is_software else KERNELS

    @property
    def probe(self) -> Probe:
        """What a plan is made of."""
        return Probe(versions=cuda_versions(self.versions, self.gpu), gpu=self.gpu)


def open_card(software: Software | None) -> Card:
    """The first visible card, or the named one in software; raises DeviceError if none opens."""
    if software is not None:
        from tools.card_check.software import software_card

        return software_card(software)
    from mansard.device.identity import identify
    from mansard.device.meters.finding import find_meters
    from mansard.device.system import SYSTEM_ROOT
    from mansard.microbench.cuda.probe import probe_gpu
    from mansard.microbench.cuda.sampling import open_gpu

    probed = probe_gpu()
    if probed.gpu is None:
        raise DeviceError(f"no GPU to measure: {probed.reason}")
    meters = find_meters(SYSTEM_ROOT, identify())
    return Card(open_gpu(), meters, probed.versions, probed.notes)
