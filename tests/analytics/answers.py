"""What is decided, put in words, as the API does it."""

from __future__ import annotations

from typing import Any

from mansard.analytics.decisions import recommend as recommending
from mansard.analytics.decisions import workload
from mansard.analytics.decisions.mix_records import MixAnswer
from mansard.analytics.decisions.offload import analysis
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.decisions.records import Recommendation
from mansard.analytics.pages.words.mixes import mix_in_words
from mansard.analytics.pages.words.offload import with_words
from mansard.analytics.pages.words.recommendation import in_words


def recommend(*given: Any, **options: Any) -> Recommendation:
    """The decision of ``decide`` in words."""
    return in_words(recommending.decide(*given, **options))


def recommend_each(*given: Any, **options: Any) -> tuple[Recommendation, ...]:
    """The decisions of ``decide_each`` in words."""
    return tuple(map(in_words, recommending.decide_each(*given, **options)))


def decide_mix(*given: Any, **options: Any) -> MixAnswer:
    """The decision of ``workload.decide_mix`` in words."""
    return mix_in_words(workload.decide_mix(*given, **options))


def decide_mixes(*given: Any) -> tuple[MixAnswer, ...]:
    """The decisions of ``workload.decide_mixes`` in words."""
    return tuple(map(mix_in_words, workload.decide_mixes(*given)))


def analyse(*given: Any, **options: Any) -> Hierarchical:
    """The answer of ``analysis.analyse`` in words."""
    return with_words(analysis.analyse(*given, **options))
