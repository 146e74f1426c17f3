"""Bytes that counted kernels moved, by parts of a network, for the demands of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mansard.analytics.models.counters.check import check_network
from mansard.analytics.models.counters.counted import Counted, is_of
from mansard.analytics.models.predict.group_times import CountedBytes, setting_of
from mansard.core.records import ModelScore


def counted_bytes(
    counted: Iterable[Counted], scores: Sequence[ModelScore]
) -> tuple[CountedBytes, ...]:
    """Of each network that was counted here and scored in the same setting.

    Of imported counters the engine is not known, and which parts kernels ran follows from scores.
    """
    found = []
    for one in counted:
        score = next((each for each in scores if one.rows and is_of(each, one)), None)
        if one.run is None or score is None:
            continue
        checked = check_network(score, one.rows, calls=one.run.n_calls, is_warm=one.is_warm)
        parts = tuple((each.nodes, each.counted_bytes) for each in checked.parts)
        first = one.rows[0]
        setting = setting_of(one.run, one.run.model_hash, first.device, first.mode)
        found.append(CountedBytes(setting, one.run.source, parts))
    return tuple(found)
