"""What is said of a time against what the hardware can do: a precision, and the clocks of a mode.

A network, a layer or a kernel that is faster than its arithmetic allows in its precision ran in
another format, at other clocks, or does less arithmetic. Frameworks multiply fp32 in TF32 on tensor
cores from Ampere on (``torch.backends.cudnn.allow_tf32`` is on by default), and Volta and Pascal
have no TF32. Winograd's F(2 × 2, 3 × 3) makes four outputs by 16 products instead of 36 (A. Lavin,
S. Gray, Fast Algorithms for Convolutional Neural Networks, 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mansard.analytics.data.quantities import quantity, seconds
from mansard.core.hardware import Module, peak_flop_per_s
from mansard.core.precision import PRECISIONS, rate_unit

_SLACK = 1.02  # clocks are rounded in tables
# By what a format is computed in where its own is not meant, the slowest first.
_FASTER = {
    "fp64": ("fp32", "tf32", "fp16"),
    "fp32": ("tf32", "fp16", "int8"),
    "tf32": ("fp16", "int8"),
    "fp16": ("int8",),
    "bf16": ("int8",),
}
_SPARSE_FROM = 80  # compute capability from which on 2:4 sparsity doubles the rate of tensor cores
_WINOGRAD = 36 / 16
_CUDA_CORES = ("fp64", "fp32")  # multiplied there, unless tensor cores do it in another format


class ClaimedWork(NamedTuple):
    """Multiply-adds, in FLOP, by the precision that they are said to run in.

    ``winograd_share``: of them, in convolutions that Winograd may run; None where not known.
    """

    flop: Mapping[str, float]
    winograd_share: float | None


class Peaks(NamedTuple):
    """The highest FLOP/s in each precision in a mode, of tensor or CUDA cores.

    ``boost``: how many times as high they are at the module's highest clocks with all SMs.
    ``slack``: by how much a time may be below them: published ones are limits, measured ones not.
    """

    name: str  # of the module or the device
    sm: int  # compute capability; 0 where not known
    flop_per_s: Mapping[str, float]
    boost: float = 1.0
    slack: float = _SLACK


class AboveRoof(NamedTuple):
    """A time that is ``ratio`` times below what its arithmetic needs in its precision.

    ``causes``: what would explain that alone. ``is_refused``: whether its precision or its clocks
    are in question; not where Winograd on CUDA cores explains it and tensor cores have no TF32.
    """

    ratio: float
    causes: tuple[str, ...]
    is_refused: bool
    text: str


def mode_peaks(module: Module, n_sms: int | None, gpu_hz: float | None) -> Peaks:
    """The peaks of ``module`` in a mode; what the mode does not say is at its highest."""
    sms, hz = n_sms or module.n_sms, gpu_hz or module.highest_gpu_hz
    peaks: dict[str, float] = {}
    for precision in PRECISIONS:
        of_units = [
            peak_flop_per_s(module, n_sms=sms, gpu_hz=hz, precision=precision, unit="tensor"),
            peak_flop_per_s(module, n_sms=sms, gpu_hz=hz, precision=precision, unit="fma"),
        ]
        if known := [peak for peak in of_units if peak is not None]:
            peaks[precision] = max(known)
    boost = module.n_sms * module.highest_gpu_hz / (sms * hz)
    return Peaks(module.name, module.sm, peaks, boost)


def above_roof(time_s: float, work: ClaimedWork, peaks: Peaks) -> AboveRoof | None:
    """What a time questions; None where its arithmetic fits in it, or a peak is not known."""
    least_s = _least_s(work.flop, peaks.flop_per_s)
    if least_s is None or least_s <= peaks.slack * time_s:
        return None
    ratio = least_s / time_s
    formats = tuple(_formats(time_s, work, peaks))
    clocks = _clocks(ratio, peaks)
    is_cuda = all(precision in _CUDA_CORES for precision in work.flop)
    is_winograd = is_cuda and _may_be_winograd(ratio, work)
    winograd = ("Winograd (1 / 2.25 of the products of 3 × 3 convolutions)",) if is_winograd else ()
    causes = (*formats, *_sparsity(ratio, work, peaks), *clocks, *winograd)
    is_refused = not (is_winograd and "tf32" not in peaks.flop_per_s)
    return AboveRoof(ratio, causes, is_refused, _text(time_s, ratio, work, peaks, causes))


def _least_s(flop: Mapping[str, float], flop_per_s: Mapping[str, float]) -> float | None:
    if not flop or any(precision not in flop_per_s for precision in flop):
        return None
    return sum(amount / flop_per_s[precision] for precision, amount in flop.items())


def _formats(time_s: float, work: ClaimedWork, peaks: Peaks) -> Iterator[str]:
    """The slowest other format in which the work fits into the time."""
    for other in ("fp32", "tf32", "fp16", "int8"):
        flop: dict[str, float] = {}
        for precision, amount in work.flop.items():
            name = other if other in _FASTER.get(precision, ()) else precision
            flop[name] = flop.get(name, 0.0) + amount
        if flop == dict(work.flop) or (least_s := _least_s(flop, peaks.flop_per_s)) is None:
            continue
        if least_s <= _SLACK * time_s:
            yield f"{other.upper()} ({least_s / time_s:.2g} of its peak)"
            return


def _clocks(ratio: float, peaks: Peaks) -> Iterator[str]:
    if peaks.boost > _SLACK and ratio <= _SLACK * peaks.boost:
        yield (
            f"clocks or SMs above those of the mode ({ratio / peaks.boost:.2g} of the peak at the "
            f"highest of {peaks.name})"
        )


def _sparsity(ratio: float, work: ClaimedWork, peaks: Peaks) -> Iterator[str]:
    is_tensor = all(precision not in _CUDA_CORES for precision in work.flop)
    if is_tensor and peaks.sm >= _SPARSE_FROM and ratio <= 2 * _SLACK:
        yield "2:4 sparsity (twice the dense rate)"


def _may_be_winograd(ratio: float, work: ClaimedWork) -> bool:
    share = 1.0 if work.winograd_share is None else work.winograd_share
    return ratio * (1 - share + share / _WINOGRAD) <= _SLACK


def _text(
    time_s: float, ratio: float, work: ClaimedWork, peaks: Peaks, causes: tuple[str, ...]
) -> str:
    total, names = sum(work.flop.values()), " and ".join(work.flop)
    unit = rate_unit(next(iter(work.flop)))
    needed, roof = (
        quantity(rate, unit, n_digits=3) for rate in (total / time_s, total / time_s / ratio)
    )
    why = " or ".join(causes)
    end = (
        f"{why} would explain it alone"
        if causes
        else f"no format and no clock of {peaks.name} explains it: the unit, the batch or the "
        "count is wrong"
    )
    return (
        f"{seconds(time_s)} needs {ratio:.3g} times the {names} peak of the mode ({needed} against "
        f"{roof}); {end}"
    )
