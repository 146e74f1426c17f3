"""Demands on memory: chains of FMA over main memory; longer chains make less traffic per second.

A chain of one FMA asks for all the bandwidth that its processor reaches. A longer one computes
more for each byte, so that it asks for less, steadily, as a network's layer does (the calibrators
of PCCS vary operations for each byte in the same way).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol as Seam

import numpy as np

from mansard.core.errors import DeviceError
from mansard.core.records import MachineIdentity
from mansard.measuring.raw_samples import RawSample, rejection
from mansard.measuring.sampling import calibrate
from mansard.microbench.cpu.source import CpuSource
from mansard.microbench.cpu.trial_specs import STREAM_PRECISION, stream_working_sets
from mansard.microbench.cuda.sampling import OpenGpu, check_answers
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.trial_specs import memory_set
from mansard.microbench.kernel import Case, find_kernel, gpu_case

_KERNEL = "fma"
_BOUND_CHAIN = 512  # so long that no processor waits for memory
_TRIED_BYTES = 1 << 18  # per thread: the slice with which the number per sample is found
_N_TRIED = 8  # samples; disturbances only lengthen them, so the shortest counts
_STEPS, _CLOSE = 7, 0.02  # of the search for a chain, and when it ends
_MOST_SAMPLES = 100_000  # of an aggressor, which is stopped long before
_START_S = 0.005  # until an aggressor runs
_POLL_S = 0.25  # longer than a block: asking whether to stop would interrupt it


def _never() -> bool:
    return False


class Load(Seam):
    """A processor whose demand on memory can be chosen; a context manager."""

    sample_bytes: int  # traffic of one sample
    clock_step_hz: float | None  # between two clocks, of a GPU if known

    def __enter__(self) -> Load:
        """Allocate its memory."""

    def __exit__(self, *_: object) -> None:
        """Free its memory."""

    def ask(self, fma_per_element: int) -> None:
        """Run chains of this length from now on."""

    def take(self, n_samples: int, should_stop: Callable[[], bool] = _never) -> list[RawSample]:
        """Samples without pause; fewer only when told to stop."""

    def stop(self) -> None:
        """Make ``take`` in another thread, which has been asked to stop, return at once."""

    def check_answers(self, failure: str) -> None:
        """Raise DeviceError where after ``failure`` no later point could be measured either."""


class CpuLoad:
    """Pinned threads on some CPUs, each over an array beyond the last cache."""

    clock_step_hz: float | None = None

    def __init__(self, cpus: tuple[int, ...], machine: MachineIdentity, sample_s: float) -> None:
        case = Case(
            kernel=_KERNEL,
            precision=STREAM_PRECISION,
            working_set_bytes=stream_working_sets(machine, cpus, 0)[-1] // len(cpus),
            fma_per_element=1,
        )
        self._source, self._sample_s = CpuSource(case, cpus), sample_s
        self._repetitions = 1
        self.sample_bytes = 0

    def __enter__(self) -> CpuLoad:
        self._source.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._source.__exit__()

    def ask(self, fma_per_element: int) -> None:
        """Choose slices, or a number of whole sweeps, that last as long as a sample."""
        tried_bytes = self._source.slice(_TRIED_BYTES, fma_per_element)
        n_tried = self._sample_s / min(
            sample.duration_s for sample in self._source.take(_N_TRIED, 1)
        )
        slice_bytes = self._source.slice(int(n_tried * _TRIED_BYTES) or 1, fma_per_element)
        self._repetitions = max(1, round(n_tried * tried_bytes / slice_bytes))
        self.sample_bytes = slice_bytes * self._repetitions

    def take(self, n_samples: int, should_stop: Callable[[], bool] = _never) -> list[RawSample]:
        """Samples of one slice each."""
        return self._source.take(n_samples, self._repetitions, should_stop, poll_s=_POLL_S)

    def stop(self) -> None:
        """Do not wait until it is asked."""
        self._source.stop()

    def check_answers(self, failure: str) -> None:
        """A CPU that failed once may go on."""


class GpuLoad:
    """The GPU, over an array beyond its L2."""

    def __init__(self, opened: OpenGpu, sample_s: float) -> None:
        largest = memory_set(opened.gpu)
        if largest is None:
            raise DeviceError(
                "the GPU's memory is too small for a working set beyond its L2",
                fix="--processor cpu measures two halves of the CPUs",
            )
        self._n_bytes, self._opened, self._sample_s = largest.n_bytes, opened, sample_s
        self.clock_step_hz = opened.clock_step_hz
        self._kernel = find_kernel(_KERNEL, "cupy")
        self._stack = ExitStack()
        self._source: CudaSource | None = None
        self._repetitions = 0
        self.sample_bytes = 0

    def __enter__(self) -> GpuLoad:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, fma_per_element: int) -> None:
        """Load the chain, and find how many sweeps last as long as a sample."""
        self._stack.close()
        case = gpu_case(_KERNEL, STREAM_PRECISION, self._n_bytes, fma_per_element)
        source = CudaSource(
            self._kernel, case, self._opened.gpu, self._opened.runtime, self._opened.clock
        )
        self._source = self._stack.enter_context(source)
        self._repetitions = calibrate(self._source, self._sample_s, _never)
        n_bytes = self._kernel.traffic_bytes(case, source.launch)
        self.sample_bytes = n_bytes * self._repetitions

    def take(self, n_samples: int, should_stop: Callable[[], bool] = _never) -> list[RawSample]:
        """Samples of the chosen number of sweeps."""
        assert self._source is not None  # noqa: S101 - a chain is asked for first
        return self._source.take(n_samples, self._repetitions, should_stop)

    def stop(self) -> None:
        """It is asked after every sample."""

    def check_answers(self, failure: str) -> None:
        """A GPU may be lost."""
        check_answers(self._opened.runtime, failure)


def find_chains(load: Load, shares: Sequence[float]) -> dict[float, int]:
    """FMA per element at which ``load`` alone demands each of ``shares`` of its highest rate.

    A chain that is bound by compute takes a time proportional to its length, and none is faster: so
    the one that is sought is no longer than that. Near the ridge the others are tried.
    """
    most = _rate(load, 1)
    bound = _rate(load, _BOUND_CHAIN) * _BOUND_CHAIN
    chains: dict[float, int] = {}
    longest = 0
    for share in sorted(shares, reverse=True):
        wanted = share * most
        length = 1 if share >= 1 else _find_chain(load, wanted, max(1, round(bound / wanted)))
        longest = max(length, longest + 1)  # no two shares have the same chain
        chains[share] = longest
    return chains


def _find_chain(load: Load, wanted: float, longest: int) -> int:
    """The chain with about ``wanted`` bytes per second, of at most ``longest`` FMA."""
    low, high, length = 1, longest, longest
    for _ in range(_STEPS):
        reached = _rate(load, length) / wanted
        if abs(reached - 1) <= _CLOSE:
            break
        low, high = (length, high) if reached > 1 else (low, length)
        length = round((low * high) ** 0.5)
    return length


def _rate(load: Load, fma_per_element: int) -> float:
    """Bytes per second of a chain that runs alone."""
    load.ask(fma_per_element)
    return load.sample_bytes / min(sample.duration_s for sample in load.take(_N_TRIED))


@contextmanager
def running(load: Load) -> Iterator[list[RawSample]]:
    """Run ``load`` during the block; its samples are in the list afterwards."""
    is_over = threading.Event()
    samples: list[RawSample] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            samples.extend(load.take(_MOST_SAMPLES, is_over.is_set))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="aggressor", daemon=True)
    thread.start()
    try:
        is_over.wait(_START_S)
        yield samples
    finally:
        is_over.set()
        load.stop()
        thread.join()
    if errors:
        raise errors[0]


def rates_within(
    samples: Sequence[RawSample],
    beside: Sequence[RawSample],
    sample_bytes: int,
    cpu_share_min: float,
) -> list[float | None]:
    """Bytes per second of ``beside`` during each of ``samples``, as if even within a sample.

    None: it did not run all through that sample, or other work interrupted it meanwhile.
    """
    if not beside:
        return [None] * len(samples)
    starts, durations = np.array([(sample.started_s, sample.duration_s) for sample in beside]).T
    ends = starts + durations
    is_calm = np.array([rejection(sample, cpu_share_min) is None for sample in beside])
    times = np.stack([starts, ends], axis=1).ravel()
    n_done = np.repeat(np.arange(len(beside) + 1), 2)[1:-1]
    run_s = np.repeat(np.concatenate([[0.0], durations.cumsum()]), 2)[1:-1]
    rates: list[float | None] = []
    for sample in samples:
        span_s = np.array([sample.started_s, sample.started_s + sample.duration_s])
        (n_within,), (within_s,) = (
            np.diff(np.interp(span_s, times, cumulative)) for cumulative in (n_done, run_s)
        )
        is_during = (starts < span_s[1]) & (ends > span_s[0])
        is_covered = within_s >= cpu_share_min * sample.duration_s and is_calm[is_during].all()
        rates.append(float(n_within) * sample_bytes / sample.duration_s if is_covered else None)
    return rates
