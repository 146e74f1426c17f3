"""The loops all streams are made of, as one intrinsic: arrays in, arrays out.

Arrays are swept in blocks of several vectors, then in single vectors, then in single
elements, so that any number of elements is handled and nearly all in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from mansard.microbench.kernels import emit
from mansard.microbench.kernels.numba_api import intrinsic, types

LINE_BYTES = 64
N_LOOPS = 3  # blocks of vectors, single vectors, single elements
SCALAR = 0.5  # a power of two: s·x is exact, so fused and unfused triads agree bit by bit


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
def barrier(_context: Any) -> Any:
    """Keep the compiler from merging repetitions; no instruction."""

    def generate(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        emit.memory_barrier(builder)
        return None

    return types.void(), generate


@intrinsic
def drain(_context: Any) -> Any:
    """Wait until non-temporal stores have left the core."""

    def generate(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.fence("seq_cst")
        return None

    return types.void(), generate


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
