"""Exports of Nsight Compute: they hold counters, which ``mansard ncu import`` reads."""

from __future__ import annotations

import re

from mansard.analytics.published.readers.reader import Reader, Reading, ToolFile
from mansard.core.errors import InputError

_HEADER = re.compile(r'^"?(?:ID|Process ID)"?,.*"?Kernel Name"?,', re.M)


def _read(source: ToolFile) -> Reading:
    raise InputError(
        "holds counters of Nsight Compute", where=source.where, fix="use 'mansard ncu import'"
    )


NCU = Reader("Nsight Compute", lambda head: _HEADER.search(head) is not None, _read)
