"""A metered board in four modes in a real browser: every chart, and one selection for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.write import write_report
from tests.analytics.board_runs import write_board
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.pages import MARKS, choose, chosen, count, drawing

pytestmark = MARKS
CHARTS = (
    *("pareto", "heat", "roofline", "roof-shares", "energy-roofline", "power-roof"),
    *("layer-classes", "layers", "layer-energy", "batches", "staircase", "latency", "chains"),
)
ROOFS = CHARTS[2:6]
OF_ONE = ("pareto", "heat", "layer-classes", "layers", "layer-energy", "batches")
NETWORKS = {"moves": 10**7, "works": 10**9}  # FLOP of a layer that moves 1 MB


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = write_board(tmp_path_factory.mktemp("runs"))
    scores = [
        score(
            name,
            [
                layer(at, batch * work * (at + 1), 10**6 * (batch + 4), precision=precision)
                for at in range(6)
            ],
            batch=batch,
            precision=precision,
        )
        for name, work in NETWORKS.items()
        for precision in ("fp16", "fp32")
        for batch in (1, 8)
    ]
    write_scores(runs, scores)
    return write_report(ingest(runs), runs / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_an_error(
    chromium: Any, report: Path, scheme: str, record_property: Any
) -> None:
    pages.load(chromium, report, len(CHARTS), scheme)
    assert tuple(pages.charts(chromium)) == CHARTS
    assert chromium.get_log("browser") == []
    milliseconds = chromium.execute_script("return document.documentElement.dataset.milliseconds")
    record_property("milliseconds_to_draw", milliseconds)
    kinds = (".mark-symbol.role-mark path", ".mark-line path", ".mark-rect path")
    for chart in CHARTS:
        if "take equal" in drawing(chromium, chart):  # bars of one length are a sentence
            continue
        n_least = {"layer-classes": 1, "roof-shares": 2}.get(chart, 3)
        assert sum(count(chromium, chart, kind) for kind in kinds) >= n_least, chart
        assert "NaN" not in drawing(chromium, chart), chart


def test_one_choice_changes_all_the_charts_that_depend_on_it(chromium: Any, report: Path) -> None:
    pages.load(chromium, report, len(CHARTS))
    follow = {
        "mode": set(CHARTS) - {"pareto", "heat"} | {"pareto", "heat"},  # these ring the mode
        "network": {*ROOFS, *OF_ONE},
        "precision": {*ROOFS, *OF_ONE},
        "batch": set(ROOFS),
    }
    values = {"mode": "15W", "network": "works", "precision": "fp32", "batch": "8"}
    for name, value in values.items():
        assert chosen(chromium, name) != value
        before = {chart: drawing(chromium, chart) for chart in CHARTS}
        choose(chromium, name, value)
        changed = {chart for chart in CHARTS if drawing(chromium, chart) != before[chart]}
        assert changed == follow[name], name
    assert chromium.get_log("browser") == []


def test_a_choice_that_is_taken_back_leaves_the_roofs_as_they_were(
    chromium: Any, report: Path
) -> None:
    def drawn() -> dict[str, list[str]]:
        """The marks of each chart, in whatever order they are drawn."""
        return {chart: sorted(drawing(chromium, chart).split("<")) for chart in ROOFS}

    pages.load(chromium, report, len(CHARTS))
    choose(chromium, "precision", "")
    before = drawn()
    for precision in ("fp32", "fp16", ""):
        choose(chromium, "precision", precision)
    assert drawn() == before


def test_a_click_on_a_mode_chooses_it_everywhere(chromium: Any, report: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    pages.load(chromium, report, len(CHARTS))
    choose(chromium, "mode", "MAXN")
    before = {chart: drawing(chromium, chart) for chart in CHARTS}
    cell = chromium.execute_script(
        """
        const cells = document.querySelectorAll("[data-spec='heat'] svg .mark-rect path");
        const cell = Array.from(cells).find((each) => /mode: 30W/.test(each.ariaLabel));
        cell.scrollIntoView({block: 'center', behavior: 'instant'});
        return cell;
        """
    )
    ActionChains(chromium).move_to_element_with_offset(cell, 0, 20).click().perform()
    assert chosen(chromium, "mode") == "30W"
    changed = {chart for chart in CHARTS if drawing(chromium, chart) != before[chart]}
    assert changed == set(CHARTS)
    assert chromium.get_log("browser") == []


def test_the_controls_can_be_reached_and_changed_by_keyboard(chromium: Any, report: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    pages.load(chromium, report, len(CHARTS))
    choose(chromium, "mode", "30W")
    on = chromium.find_element(By.CSS_SELECTOR, "#controls [name=mode]:checked")
    on.send_keys(Keys.ARROW_RIGHT)
    assert chosen(chromium, "mode") == "50W"
    names = [each.accessible_name for each in chromium.find_elements(By.CSS_SELECTOR, "fieldset")]
    assert names[0] == "Power mode"
    assert all(names)
