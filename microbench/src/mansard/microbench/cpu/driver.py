"""The compiled loop that takes samples: one call a thread, no Python in between.

Before every sample all threads meet at a barrier; each then stamps the monotonic
clock, runs the kernel, and stamps again. Around that its own CPU time and its
involuntary context switches are read, so that a disturbed sample can be told.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from mansard.microbench.cpu.compiling import intrinsic, jit_cached, types

# Columns of a thread's table of samples.
START_NS, END_NS, CPU_NS, N_SWITCHES = range(4)
N_COLUMNS = 4
# Words of the state that threads share, each on its own pair of cache lines.
STOP, ARRIVED = 0, 16
N_SHARED_WORDS = 32
# Words of a thread's state, for readings of the clock and of the kernel's accounting.
N_SCRATCH_WORDS = 32
N_ARGUMENTS = 5  # of a kernel, beside its repetitions

# linux/time.h, linux/resource.h: the same on every 64-bit Linux.
CLOCK_MONOTONIC = 1
CLOCK_THREAD_CPUTIME_ID = 3
RUSAGE_THREAD = 1
_INVOLUNTARY_SWITCHES = 17  # ru_nivcsw is the 18th word of struct rusage

_SPINS_BEFORE_YIELD = 2000  # some microseconds: another thread may need our core to arrive

# Addresses are passed as 64-bit integers.
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_getrusage = types.ExternalFunction("getrusage", types.int32(types.int32, types.int64))
_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _word(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


@intrinsic
def _call_kernel(_context: Any, address: Any, arguments: Any, repetitions: Any) -> Any:
    """Call the C function at ``address`` with five words at ``arguments``."""

    def generate(_target: Any, builder: Any, _signature: Any, values: Any) -> Any:
        word = ir.IntType(64)
        function = ir.FunctionType(ir.VoidType(), [word] * 6)
        words = _word(builder, values[1])
        five = [builder.load(builder.gep(words, [word(i)])) for i in range(N_ARGUMENTS)]
        builder.call(builder.inttoptr(values[0], function.as_pointer()), [*five, values[2]])

    return types.void(address, arguments, repetitions), generate


@intrinsic
def _add_atomically(_context: Any, address: Any, amount: Any) -> Any:
    """Add to the word at ``address`` for all threads to see; returns what it was."""

    def generate(_target: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.atomic_rmw("add", _word(builder, values[0]), values[1], "seq_cst")

    return types.int64(address, amount), generate


@intrinsic
def _load_atomically(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.load_atomic(_word(builder, values[0]), "acquire", 8)

    return types.int64(address), generate


def _read_clock(clock: int, scratch: int) -> Any:
    """Nanoseconds of one of the system's clocks (struct timespec: seconds, nanoseconds)."""
    _clock_gettime(clock, scratch)
    return _load_atomically(scratch) * 1_000_000_000 + _load_atomically(scratch + 8)


def _read_switches(scratch: int) -> Any:
    """Involuntary context switches of this thread so far."""
    _getrusage(RUSAGE_THREAD, scratch)
    return _load_atomically(scratch + 8 * _INVOLUNTARY_SWITCHES)


def _meet(shared: int, n_arrivals: int) -> Any:
    """Arrive, and wait until ``n_arrivals`` were counted; False where told to stop."""
    _add_atomically(shared + 8 * ARRIVED, 1)
    spins = 0
    while _load_atomically(shared + 8 * ARRIVED) < n_arrivals:
        if _load_atomically(shared + 8 * STOP) != 0:
            return False
        spins += 1
        if spins > _SPINS_BEFORE_YIELD:
            _sched_yield()
    return _load_atomically(shared + 8 * STOP) == 0


_clock = jit_cached(_read_clock)
_switches = jit_cached(_read_switches)
_barrier = jit_cached(_meet)


def _take_samples(  # noqa: PLR0917 -- compiled code takes arguments by position
    function: int,
    arguments: int,
    n_slices: int,
    repetitions: int,
    shared: int,
    n_threads: int,
    scratch: int,
    table: Any,
) -> int:
    """Fill the rows of ``table`` with one sample each; returns how many were taken.

    ``arguments``: the words of ``n_slices`` calls, of which samples take one after the other.
    """
    for sample in range(table.shape[0]):
        if not _barrier(shared, n_threads * (sample + 1)):
            return sample
        switches = _switches(scratch)
        cpu = _clock(CLOCK_THREAD_CPUTIME_ID, scratch)
        words = arguments + 8 * N_ARGUMENTS * (sample % n_slices)
        start = _clock(CLOCK_MONOTONIC, scratch)
        _call_kernel(function, words, repetitions)
        end = _clock(CLOCK_MONOTONIC, scratch)
        table[sample, CPU_NS] = _clock(CLOCK_THREAD_CPUTIME_ID, scratch) - cpu
        table[sample, N_SWITCHES] = _switches(scratch) - switches
        table[sample, START_NS] = start
        table[sample, END_NS] = end
    return int(table.shape[0])


take_samples = jit_cached(
    _take_samples, "int64(int64,int64,int64,int64,int64,int64,int64,int64[:,::1])"
)
