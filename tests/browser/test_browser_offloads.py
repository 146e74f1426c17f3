"""The page about hierarchical inference in a real browser: drawn, silent, and no name is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.decisions.offload.costs import mode_costs
from mansard.analytics.decisions.offload.records import Goal, HiSettings, make_amount
from mansard.analytics.decisions.offload.samples import make_samples
from mansard.analytics.pages.report.answer_pages import write_offload_page
from tests.analytics.answers import analyse
from tests.analytics.factory import HOSTILE
from tests.analytics.hierarchical_samples import made_up
from tests.browser.pages import MARKS, load

pytestmark = MARKS


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two modes, one of a hostile name, times without energies, and a replay."""
    modes = [
        mode_costs(
            name,
            {
                "local_s": make_amount(local_s, 0.9 * local_s, 1.1 * local_s, source="measured"),
                "decision_s": make_amount(1e-6, 1e-6, 1e-6),
                "offload_s": make_amount(10e-3, 9e-3, 11e-3),
            },
        )
        for name, local_s in ((HOSTILE, 1e-3), ("15W", 2e-3))
    ]
    found = analyse(
        make_samples(made_up(1000), "made up"),
        modes,
        Goal(minimise="latency", min_accuracy=0.85, offload_cost=0.3),
        HiSettings(n_replayed=300),
    )
    path = tmp_path_factory.mktemp("offloads") / "page.html"
    write_offload_page(found, HOSTILE, path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_charts_are_drawn_and_no_name_becomes_markup(
    chromium: Any, page: Path, scheme: str
) -> None:
    load(chromium, page, 2, scheme)
    assert chromium.get_log("browser") == []
    drawn = "return document.querySelectorAll(arguments[0]).length"
    # Accuracy over latency and over the share: a line and a band each, and marks.
    assert chromium.execute_script(drawn, "[data-spec='frontier-0'] svg .mark-area path") == 2
    assert chromium.execute_script(drawn, "[data-spec='frontier-0'] svg .mark-symbol path") >= 12
    assert chromium.execute_script(drawn, "[data-spec='regret-0'] svg .mark-line path") == 2
    assert chromium.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    text = chromium.execute_script("return document.body.outerHTML").split("<script")[0]
    assert "NaN" not in text
    assert "Mean latency, ms" in text
    assert "Mean energy" not in text
