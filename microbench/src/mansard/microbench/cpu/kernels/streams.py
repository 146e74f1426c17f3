"""Streams: read, copy, scale and triad, in the manner of McCalpin's STREAM.

Bytes are counted as the program sees them: every element it loads and every element
it stores, once. The line that a plain store first loads from memory (write-allocate)
is not counted; non-temporal stores, which avoid it, are counted just the same.

Arrays are swept in blocks of several vectors, then in single vectors, then in single
elements, so that any number of elements is handled and nearly all in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from llvmlite import ir

from mansard.core.hashing import file_hash
from mansard.microbench.cpu import emit
from mansard.microbench.cpu.compiling import compile_kernel, hash_source, intrinsic, types
from mansard.microbench.cpu.emit import LINE_BYTES, barrier, drain, host_unit, n_unrolled
from mansard.microbench.cpu.launching import SCOPES, count_elements, ramp
from mansard.microbench.kernel import Array, Case, Kernel, Launch

SCALAR = 0.5  # a power of two: s·x is exact, so fused and unfused triads agree bit by bit
_GRANULE_BYTES = 1024  # a multiple of any block of ours, and of the C peers in benchmarks/
SOURCE_HASH = hash_source(__file__)


@intrinsic(prefer_literal=True)
def sweep(  # noqa: PLR0913, PLR0917 -- compiled code takes arguments by position
    _context: Any,
    a: Any,
    b: Any,
    c: Any,
    n: Any,
    operation: Any,
    precision: Any,
    width: Any,
    vectors: Any,
    nontemporal: Any,
) -> Any:
    """One pass over ``n`` elements of arrays at addresses a, b, c; the rest are literals."""
    signature = types.void(a, b, c, n, operation, precision, width, vectors, nontemporal)

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        emitter = _SweepEmitter(
            builder,
            arrays=arguments[:3],
            operation=operation.literal_value,
            precision=precision.literal_value,
            nontemporal=bool(nontemporal.literal_value),
        )
        emitter.emit(arguments[3], width.literal_value, vectors.literal_value)
        return None

    return signature, generate


@intrinsic(prefer_literal=True)
def fold_result(_context: Any, result: Any, precision: Any, width: Any) -> Any:
    """Fold what a reading sweep left at ``result`` into one element at its beginning."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        element = emit.element_bytes(precision.literal_value)
        total: Any = ir.IntType(8 * element)(0)
        for line, n_bytes in enumerate((width.literal_value, width.literal_value, element)):
            for lane in range(n_bytes // element):
                place = builder.add(arguments[0], emit.I64(line * LINE_BYTES + lane * element))
                total = builder.xor(total, emit.load(builder, total.type, place, element))
        emit.store(builder, total, arguments[0], element)

    return types.void(result, precision, width), generate


@intrinsic
def move_string(_context: Any, a: Any, b: Any, n_bytes: Any) -> Any:
    """Copy ``n_bytes`` from address a to b with the processor's own instruction for it."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        emit.string_move(builder, *arguments)
        return None

    return types.void(a, b, n_bytes), generate


class _SweepEmitter:
    """Writes one sweep; holds what all its loops have in common."""

    def __init__(
        self,
        builder: Any,
        *,
        arrays: Sequence[Any],
        operation: str,
        precision: str,
        nontemporal: bool,
    ) -> None:
        self._builder = builder
        self._arrays = arrays
        self._operation = operation
        self._precision = precision
        self._nontemporal = nontemporal
        self._element_bytes = emit.element_bytes(precision)

    def emit(self, n_elements: Any, width: int, n_vectors: int) -> None:
        """All blocks, then all vectors, then all elements that are left."""
        builder = self._builder
        element = self._element_bytes
        end = builder.mul(n_elements, emit.I64(element))
        start: Any = emit.I64(0)
        result = self._arrays[1]
        for vector_bytes, count in ((width, n_vectors), (width, 1), (element, 1)):
            block_bytes = emit.I64(vector_bytes * count)
            n_blocks = builder.sdiv(builder.sub(end, start), block_bytes)
            if self._operation == "read":
                self._fold(start, n_blocks, vector_bytes, count, result)
                result = builder.add(result, emit.I64(LINE_BYTES))
            else:
                self._map(start, n_blocks, vector_bytes, count)
            start = builder.add(start, builder.mul(n_blocks, block_bytes))

    def _places(self, array: Any, start: Any, index: Any, vector_bytes: int, count: int) -> Any:
        builder = self._builder
        offset = builder.add(start, builder.mul(index, emit.I64(vector_bytes * count)))
        base = builder.add(array, offset)
        return [builder.add(base, emit.I64(k * vector_bytes)) for k in range(count)]

    def _fold(self, start: Any, n_blocks: Any, vector_bytes: int, count: int, to: Any) -> None:
        """Exclusive or of everything loaded: exact in any order, and never the bottleneck.

        Each loop leaves one vector on a line of its own; lanes and lines are folded into
        one element after the last sweep, for that takes a tenth of a sweep through L1.
        """
        builder = self._builder
        vector = emit.integer_vector(self._element_bytes, vector_bytes)

        def block(index: Any, sums: Any) -> list[Any]:
            places = self._places(self._arrays[0], start, index, vector_bytes, count)
            loaded = [emit.load(builder, vector, place, vector_bytes) for place in places]
            return [builder.xor(x, y) for x, y in zip(sums, loaded, strict=True)]

        zeros = [ir.Constant(vector, None)] * count
        first, *others = emit.counted_loop(builder, n_blocks, zeros, block)
        for value in others:
            first = builder.xor(first, value)
        emit.store(builder, first, to, vector_bytes)

    def _map(self, start: Any, n_blocks: Any, vector_bytes: int, count: int) -> None:
        builder = self._builder
        n_inputs = 2 if self._operation == "triad" else 1
        vector = emit.vector_type(self._precision, vector_bytes)
        if self._operation == "copy":  # bits, not numbers: nothing to compute
            vector = emit.integer_vector(self._element_bytes, vector_bytes)
        scalar = emit.constant(vector, SCALAR) if self._operation != "copy" else None

        def block(index: Any, _: Any) -> list[Any]:
            columns = [
                self._places(array, start, index, vector_bytes, count)
                for array in self._arrays[: n_inputs + 1]
            ]
            for *inputs, place in zip(*columns, strict=True):
                loaded = [emit.load(builder, vector, x, vector_bytes) for x in inputs]
                value = self._apply(loaded, scalar)
                emit.store(builder, value, place, vector_bytes, nontemporal=self._nontemporal)
            return []

        emit.counted_loop(builder, n_blocks, [], block)

    def _apply(self, operands: Sequence[Any], scalar: Any) -> Any:
        if self._operation == "copy":
            return operands[0]
        if self._operation == "scale":
            return self._builder.fmul(operands[0], scalar)
        return emit.fused_multiply_add(
            self._builder, self._precision, operands[1], scalar, operands[0]
        )


def _make(
    operation: str, precision: str, width: int, n_vectors: int, nontemporal: bool, source: str
) -> Callable[..., None]:
    def stream(a: int, b: int, c: int, n_elements: int, _steps: int, repetitions: int) -> None:
        source  # noqa: B018 -- makes the hash part of the cache's key
        for _ in range(repetitions):
            sweep(a, b, c, n_elements, operation, precision, width, n_vectors, nontemporal)
            barrier()
            if nontemporal:
                drain()
        if operation == "read":
            fold_result(b, precision, width)

    return stream


def _make_string_copy(precision: str, source: str) -> Callable[..., None]:
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()  # Numba does not: LLVM would end the process at the text
    element_bytes = emit.element_bytes(precision)

    def copy(a: int, b: int, _c: int, n_elements: int, _steps: int, repetitions: int) -> None:
        source  # noqa: B018 -- makes the hash part of the cache's key
        for _ in range(repetitions):
            move_string(a, b, n_elements * element_bytes)

    return copy


def build(case: Case) -> int:
    """Address of the compiled kernel for the case's precision, stores and vectors."""
    width = case.vector_bytes or host_unit().stream_widths[0]
    nontemporal = case.stores == "nontemporal"

    def make() -> Callable[..., None]:
        if width == emit.STRING_MOVE:
            return _make_string_copy(case.precision, SOURCE_HASH)
        return _make(
            case.kernel, case.precision, width, n_unrolled(width), nontemporal, SOURCE_HASH
        )

    return compile_kernel((case.kernel, case.precision, str(case.stores), str(width)), make)


def variants(case: Case) -> tuple[Case, ...]:
    """The case with every width of vectors worth trying."""
    if case.vector_bytes is not None:
        return (case,)
    unit = host_unit()
    # Past the caches the string move would not go: there the stores say how.
    is_plain_copy = case.kernel == "copy" and case.stores != "nontemporal"
    widths = unit.copy_widths if is_plain_copy else unit.stream_widths
    return tuple(replace(case, vector_bytes=width) for width in widths)


def _pattern(n_arrays: int) -> Callable[[Case, Launch], tuple[Array, ...]]:
    """Every array gets different values around 1, far from zero, infinity and denormals."""
    return lambda case, launch: tuple(
        ramp(case, launch, 1.0 + offset, 2.0 + offset) for offset in range(n_arrays)
    )


def _read(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """What was read, and the exclusive or of all its elements."""
    bits = arrays[0].view(f"u{case.element_bytes}")
    return arrays[0], np.bitwise_xor.reduce(bits, keepdims=True)


def _copy(
    _case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    return arrays[0], arrays[0].copy()


def _scale(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    return arrays[0], arrays[0] * case.dtype.type(SCALAR)


def _triad(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    a, b, _ = arrays
    return a, b, a + case.dtype.type(SCALAR) * b


def _stream(
    name: str,
    *,
    n_arrays: int,
    flop_per_element: int,
    counting: str,
    reference: Callable[[Case, Launch, tuple[Array, ...], int], tuple[Array, ...]],
    is_brief: bool,
    revision: str = "",
) -> Kernel:
    """A stream over so many arrays, each accessed once; all but the reading one store.

    ``revision``: how this one is measured otherwise than when its file first ran.
    """
    return Kernel(
        name=name,
        family="stream",
        backend="numba-cpu",
        n_arrays=n_arrays,
        precisions={"fp32": 0, "fp64": 0},
        launch=lambda case, _shape: count_elements(case, n_arrays, _GRANULE_BYTES),
        work_flop=lambda _case, launch: launch.n_elements * flop_per_element,
        traffic_bytes=lambda case, launch: launch.n_elements * n_arrays * case.element_bytes,
        counting=counting,
        pattern=_pattern(n_arrays),
        reference=reference,
        source_hash=file_hash(f"{SOURCE_HASH} {revision}".encode())[:16]
        if revision
        else SOURCE_HASH,
        build=build,
        variants=variants,
        has_stores=n_arrays > 1,
        is_brief=is_brief,
        scopes=SCOPES,
        level_scopes=SCOPES,
    )


_COUNTING = "1 read and 1 write per element as the program sees them, no write-allocate"

KERNELS = (
    _stream(
        "read",
        n_arrays=1,
        flop_per_element=0,  # exclusive or of the bits: no floating point
        counting="1 read per element",
        reference=_read,
        is_brief=True,
    ),
    _stream(
        "copy",
        n_arrays=2,
        flop_per_element=0,
        counting=_COUNTING,
        reference=_copy,
        is_brief=False,
        revision="races the string move",
    ),
    _stream(
        "scale",
        n_arrays=2,
        flop_per_element=1,  # one multiplication
        counting=_COUNTING,
        reference=_scale,
        is_brief=False,
    ),
    _stream(
        "triad",
        n_arrays=3,
        flop_per_element=2,  # one fused multiply-add
        counting="2 reads and 1 write per element as the program sees them, no write-allocate",
        reference=_triad,
        is_brief=True,
    ),
)
