"""A meter of the software GPU: a counter of energy, idle power and more while a kernel runs."""

from __future__ import annotations

from mansard.core.records import PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.totals import Total
from mansard.microbench.cuda.software_gpu import SoftwareGpu

IDLE_W, KERNEL_W = 5.0, 20.0


class SoftwareMeter:
    """A `Meter` with one rail that counts energy, on the GPU's clock."""

    name = "software meter"
    rails = ("GPU",)
    total_rule = "GPU alone"
    boundary = "the software GPU"
    period_s = 0.005
    pace_s = 0.0

    def __init__(self, gpu: SoftwareGpu) -> None:
        self._gpu = gpu
        self._start_s = gpu.host.now_s()

    def read(self) -> tuple[PowerSample, ...]:
        now_s = self._gpu.host.now_s()
        busy_s = sum(max(0.0, min(end, now_s) - begin) for begin, end in list(self._gpu.busy))
        return (
            PowerSample(
                rail="GPU",
                monotonic_s=now_s,
                power_w=None,
                energy_j=IDLE_W * (now_s - self._start_s) + KERNEL_W * busy_s,
                unknown={"power_w": "counts energy"},
            ),
        )

    def step_w(self, rail: str) -> float | None:
        return None

    def step_note(self, rail: str) -> str:
        return "computed"

    def sensor(self, rail: str) -> str:
        return rail


def software_meters(gpu: SoftwareGpu) -> Meters:
    """The meter of that GPU, which is the total."""
    total = Total(rails=("GPU",), rule="GPU alone", boundary="the software GPU")
    return Meters(found=(SoftwareMeter(gpu),), missing={}, total=total, clock=gpu.host.clock)
