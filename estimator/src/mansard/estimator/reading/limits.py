"""Limits on what is read of a file: hostile files are refused within 10 s and 1 GB.

No bound is near to what networks have: exports of language models have up to some ten
thousand nodes of about 300 bytes; a mixture of experts with each of 60 · 256 experts
written out would have about 150,000.
"""

from __future__ import annotations

from mansard.core.errors import ModelError

MAX_FIELDS = 2_000_000  # visited while the weights are taken out
MAX_KEPT_BYTES = 1 << 28  # what stays then; notes of exporters can take 3 KB a node
MAX_TEXT_BYTES = 1 << 20  # a name, or the declaration of an input
MAX_NODES = 160_000  # of all graphs, model-local functions written out
MAX_STORED = 500_000  # stored tensors, inputs and outputs of all graphs
MAX_FUNCTIONS = 10_000
MAX_NUMBERS = 4_000_000  # in lists that are attributes; a Python integer takes 32 bytes
MAX_LONG_NUMBERS = 48_000_000  # integers in lists that are read as arrays; 8 bytes each
MAX_READ_BYTES = 48 << 20  # of nodes and declarations, without what is skipped in them
MAX_GRAPH_DEPTH = 32  # protobuf refuses messages nested over 100 times, a graph takes three
MAX_FUNCTION_DEPTH = 100  # of functions that call functions
MAX_NAME_CHARACTERS = 1 << 28  # of names made for the nodes of functions

FIX = "give a smaller network; docs/understand/scoring.md lists the limits"


def too_many(what: str, limit: int) -> ModelError:
    """The error for a model with more than ``limit`` of something."""
    return ModelError(f"it has more than {limit} {what}", fix=FIX)


def too_deep() -> ModelError:
    """The error for graphs inside graphs inside graphs."""
    return ModelError(
        f"its graphs are nested deeper than {MAX_GRAPH_DEPTH}",
        fix="the file is broken or was made to mislead; export it with fewer loops and branches",
    )


class ReadingBudget:
    """What may still be read of one model; methods raise ModelError when it is used up."""

    def __init__(self) -> None:
        self._bytes = MAX_READ_BYTES
        self._stored, self._numbers = MAX_STORED, MAX_NUMBERS
        self._long_numbers = MAX_LONG_NUMBERS
        self._characters = MAX_NAME_CHARACTERS

    def read(self, n_bytes: int) -> None:
        self._bytes -= n_bytes
        if self._bytes < 0:
            raise ModelError(
                f"its nodes and names take more than {MAX_READ_BYTES >> 20} MiB", fix=FIX
            )

    def stored(self, count: int) -> None:
        self._stored -= count
        if self._stored < 0:
            raise too_many("stored tensors", MAX_STORED)

    def numbers(self, count: int) -> None:
        self._numbers -= count
        if self._numbers < 0:
            raise too_many("numbers in attributes", MAX_NUMBERS)

    def long_numbers(self, count: int) -> None:
        self._long_numbers -= count
        if self._long_numbers < 0:
            raise too_many("numbers in long attributes", MAX_LONG_NUMBERS)

    def characters(self, count: int) -> None:
        self._characters -= count
        if self._characters < 0:
            raise ModelError(
                f"its functions make names of more than {MAX_NAME_CHARACTERS >> 20} million "
                "characters",
                fix="export it with shorter names, or without nested functions",
            )
