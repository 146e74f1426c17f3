"""Networks that cannot fit into a whole machine."""

from __future__ import annotations

from mansard.api.scores import score_zoo
from mansard.estimator.summary import too_large_note, totals


def test_only_what_no_engine_could_run_is_too_large() -> None:
    score = score_zoo("vgg16")
    peak = score.fused_peak_bytes
    weights = totals(score).weight_bytes
    assert peak is not None
    assert weights == 4 * 138_357_544  # fp32
    least = weights + peak  # there is no cache
    assert too_large_note(score, least, "board") is None
    line = too_large_note(score, least - 1, "board")
    assert line is not None
    assert line.startswith("vgg16 needs at least 0.5")
    assert too_large_note(score, None, "board") is None
