"""The energy of one kernel, window after window: how far NVML or the board's rails repeat it."""

from __future__ import annotations

from gpu_card.figures import Figure, energy_figure
from msgspec.structs import replace

from mansard.core.errors import MansardError
from mansard.device.meters.meter import Meters
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.sampling import calibrate
from mansard.microbench.catalog import find_kernel
from mansard.microbench.cuda import trials
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.kernel import gpu_case

N_WINDOWS = 8


def repeat_energy(opened: OpenGpu, meters: Meters) -> Figure:
    """Windows of the longest chain of FMA under the full protocol, one after the other."""
    if not meters.found:
        return energy_figure((), "no meter; 'mansard doctor' says what is missing")
    protocol = replace(PROTOCOLS["full"], n_energy_windows=N_WINDOWS)
    one = trials.chain_set(opened.gpu)
    case = gpu_case("fma", "fp32", one.n_bytes, fma_per_element=1024)
    kernel = find_kernel("fma", "cupy")
    try:
        with CudaSource(kernel, case, opened.gpu, opened.runtime) as source:
            repetitions = calibrate(source, protocol.sample_s, lambda: False)
            metering = EnergyMetering(meters, protocol, lambda _sample: None)
            found = metering.run(source, repetitions, lambda: False)
    except MansardError as error:
        return energy_figure((), str(error))
    joules = [
        window.total_j / window.repetitions
        for window in found.windows or ()
        if window.total_j is not None and window.repetitions
    ]
    return energy_figure(joules, found.reason or "the windows have no total")
