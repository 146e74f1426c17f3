"""The report in a real browser without a network: it draws, switches, and runs nothing foreign."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.write import write_report
from tests.analytics.factory import HOSTILE, measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.pages import CHROMIUM, FLAGS, MARKS, choose, chosen, count, drawing

pytestmark = MARKS
# Neither a meter nor clocks, and one batch: what takes them says so instead of being drawn.
CHARTS = ("roofline", "roof-shares", "layer-classes", "layers", "staircase", "chains")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = write_two_modes(tmp_path_factory.mktemp("runs"))
    # 60 layers each, from memory bound to compute bound; one network and its layers are hostile
    plain = [layer(at, 10**7 * (at + 1), 10**6, name=f"conv {at}") for at in range(60)]
    hostile = [
        layer(at, int(10**6 * 1.2**at), 10**7, name=HOSTILE, op_type=HOSTILE) for at in range(60)
    ]
    names = [f"net-{number}" for number in range(9)]
    scores = [score(name, plain[number:]) for number, name in enumerate(names)]
    write_scores(runs, [*scores, score(HOSTILE, hostile)])
    return write_report(ingest(runs), runs / "report.html")


def load(chromium: Any, report: Path, scheme: str = "light") -> None:
    pages.load(chromium, report, len(CHARTS), scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_without_an_error(chromium: Any, report: Path, scheme: str) -> None:
    load(chromium, report, scheme)
    assert chromium.get_log("browser") == []
    assert chromium.execute_script("return document.documentElement.dataset.theme") == scheme
    for chart in CHARTS:
        kinds = (".mark-symbol.role-mark path", ".mark-line path", ".mark-rect path")
        # of the networks, which stand at three places, three are drawn and have bars; all layers
        # are of one class, which is cut by what binds them
        n_least = {"roof-shares": 3, "layer-classes": 2}.get(chart, 9)
        assert sum(count(chromium, chart, kind) for kind in kinds) >= n_least, chart
        assert "NaN" not in drawing(chromium, chart)


def test_dark_and_light_differ_in_colour_and_follow_the_system(chromium: Any, report: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    load(chromium, report, "light")
    light = drawing(chromium, "chains")
    feature = {"name": "prefers-color-scheme", "value": "dark"}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    WebDriverWait(chromium, 300).until(
        lambda page: page.execute_script("return document.documentElement.dataset.theme") == "dark"
    )
    assert drawing(chromium, "chains") != light
    assert "#0a6fb0" in light  # the light palette's first colour, for fp32
    assert "#0a6fb0" not in drawing(chromium, "chains")
    assert chromium.get_log("browser") == []


def test_nothing_is_asked_of_the_network(chromium: Any, report: Path) -> None:
    load(chromium, report)
    asked = [
        message["params"]["request"]["url"]
        for message in (
            json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")
        )
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert report.as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_mode_selector_changes_every_chart(chromium: Any, report: Path) -> None:
    load(chromium, report)
    two = {chart: drawing(chromium, chart) for chart in CHARTS}
    assert "128.0" in two["roofline"]  # the peak at two cores
    choose(chromium, "mode", "1c")
    assert chosen(chromium, "mode") == "1c"
    for chart in CHARTS:
        assert drawing(chromium, chart) != two[chart], chart
    choose(chromium, "mode", "2c")
    for chart in CHARTS:  # the same marks, if in another order
        assert sorted(drawing(chromium, chart).split("<")) == sorted(two[chart].split("<")), chart
    assert chromium.get_log("browser") == []


def test_measured_networks_are_solid_and_modelled_ones_hollow(
    chromium: Any, tmp_path: Path
) -> None:
    runs = write_two_modes(tmp_path)
    net = score("net", [layer(0, 1_280_000_000, 10**6)])
    write_scores(runs, [net, score("other", [layer(0, 10**7, 10**6)])])
    times_s = [0.0125 * factor for factor in (0.99, 1.0, 1.01)]
    write_networks(runs, [measurement("nets", times_s, model_hash=net.model_hash)])
    page = write_report(ingest(runs), runs / "report.html")
    pages.load(chromium, page, len((*CHARTS, "accuracy")))
    choose(chromium, "mode", "2c")
    fills = chromium.execute_script(
        """
        const marks = document.querySelectorAll("[data-spec='roofline'] svg .mark-symbol path");
        return Array.from(marks, (mark) => [mark.getAttribute("aria-label") || "",
                                            mark.getAttribute("fill")]);
        """
    )
    (solid,) = [fill for label, fill in fills if "measured time: 12.50" in label]
    (hollow,) = [fill for label, fill in fills if "modelled time: at best" in label]
    assert solid.startswith("#")
    assert hollow in {"none", "transparent", None}
    assert chromium.get_log("browser") == []


def test_choosing_a_network_shows_its_layers(chromium: Any, report: Path) -> None:
    load(chromium, report)
    before, bars = count(chromium, "roofline", ".mark-symbol path"), drawing(chromium, "layers")
    choose(chromium, "network", "net-3")
    # the slowest 30 of 57 layers, and its own mark, which stood too near to another one
    assert count(chromium, "roofline", ".mark-symbol path") == before + 31
    assert drawing(chromium, "layers") != bars
    choose(chromium, "network", "")
    assert count(chromium, "roofline", ".mark-symbol path") == before


def test_hostile_names_are_text_and_run_nothing(chromium: Any, report: Path) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    load(chromium, report)
    choose(chromium, "network", HOSTILE)
    with pytest.raises(NoAlertPresentException):
        _ = chromium.switch_to.alert.text
    assert chromium.execute_script("return document.querySelectorAll('img').length") == 0
    headers = chromium.execute_script(
        "return Array.from("
        "document.querySelectorAll('#networks th[scope=row]'), e => e.textContent)"
    )
    assert HOSTILE in headers
    options = chromium.execute_script(
        "return Array.from(document.querySelectorAll('select[name=network] option'), e => e.text)"
    )
    assert HOSTILE in options
    assert chromium.get_log("browser") == []


def test_hostile_names_in_tooltips_are_text(chromium: Any, report: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    load(chromium, report)
    choose(chromium, "network", HOSTILE)
    point = chromium.execute_script(
        """
        const svg = document.querySelector("[data-spec='roofline'] svg");
        svg.scrollIntoView({block: 'center', behavior: 'instant'});
        return Array.from(svg.querySelectorAll(".mark-symbol path[aria-label*='layer:']")).find(
          (path) => {
            const box = path.getBoundingClientRect();
            const x = box.left + box.width / 2, y = box.top + box.height / 2;
            return document.elementFromPoint(x, y) === path;
          });
        """
    )
    assert point is not None
    ActionChains(chromium).move_to_element(point).perform()
    tooltip = chromium.find_element(By.ID, "vg-tooltip-element")
    assert "visible" in str(tooltip.get_attribute("class"))
    assert HOSTILE in tooltip.text
    assert tooltip.find_elements(By.TAG_NAME, "img") == []


def test_without_scripts_the_still_pictures_stand_in(chromium: Any, report: Path) -> None:
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get(report.as_uri())
        root = chromium.execute_cdp_cmd("DOM.getDocument", {})["root"]["nodeId"]
        found = chromium.execute_cdp_cmd(
            "DOM.querySelectorAll", {"nodeId": root, "selector": "img.still"}
        )
        boxes = [
            chromium.execute_cdp_cmd("DOM.getBoxModel", {"nodeId": node})["model"]
            for node in found["nodeIds"]
        ]
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(boxes) == len(CHARTS)
    # a picture that cannot be read is shown as an icon of a few pixels
    assert all(box["width"] > 250 and box["height"] > 80 for box in boxes)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_it_draws_in_a_namespace_without_any_network(report: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network namespace")
    flags = [*FLAGS, f"--user-data-dir={tmp_path}", "--virtual-time-budget=15000"]
    dumped = subprocess.run(
        ["unshare", "-n", str(CHROMIUM), *flags, "--dump-dom", report.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert f'data-drawn="{len(CHARTS)}"' in dumped.stdout
