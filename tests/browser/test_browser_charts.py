"""The charts as Chromium draws them: no text covers another or a point, wide, narrow, anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.write import write_report
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.overlaps import overlaps
from tests.browser.pages import MARKS, choose, chosen, count, drawing

pytestmark = MARKS
NAMES = [
    *("resnet18", "resnet34", "resnet50", "resnet101", "vgg16", "vgg19", "alexnet", "unet"),
    *("mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "inception_resnet_v2"),
    *("ssdlite320_mobilenet_v3_large", "bert_base", "bert_large", "gpt2", "tinyllama_1_1b"),
    *("yolov8n", "yolov8s", "shufflenet_v2_x0_5", "swin_t", "vit_b_16", "lstm", "gru"),
]
N_MEASURED = 4


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 networks crowded around the ridge, at two batches; four of them were run."""
    runs = write_two_modes(tmp_path_factory.mktemp("runs"))
    scores = [
        score(
            name,
            # from 3 to 60 FLOP/byte, with a layer that only moves beside one that works
            [
                layer(0, batch * 10**7 * (number + 8) * (number + 2), 10**8 + 10**7 * batch),
                layer(1, batch * 10**6, 2 * 10**7, name="moves", op_type="Add"),
            ],
            batch=batch,
        )
        for number, name in enumerate(NAMES)
        for batch in (1, 8)
    ]
    write_scores(runs, scores)
    ran = [each for each in scores if each.batch == 1][-N_MEASURED:]
    times_s = [0.08 * factor for factor in (0.99, 1.0, 1.01)]
    write_networks(
        runs,
        [measurement("nets", times_s, model=net.model, model_hash=net.model_hash) for net in ran],
    )
    return write_report(ingest(runs), runs / "report.html")


def load(chromium: Any, report: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    pages.load(chromium, report, report.read_text().count("data-spec="))


@pytest.fixture(autouse=True)
def wide_again(chromium: Any) -> Any:
    yield
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [1280, 420])
def test_no_text_covers_another_or_a_point_whatever_is_chosen(
    chromium: Any, report: Path, width: int
) -> None:
    load(chromium, report, width)
    pages.open_all(chromium)
    assert overlaps(chromium) == []
    for name, value in (("batch", "8"), ("mode", "1c"), ("batch", "1"), ("mode", "2c")):
        choose(chromium, name, value)
        assert overlaps(chromium) == [], (name, value)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width


def test_measured_networks_are_all_drawn_and_modelled_ones_are_counted(
    chromium: Any, report: Path
) -> None:
    load(chromium, report, 1280)
    choose(chromium, "mode", "2c")
    # The legend has a mark for each bound, and each roof of main memory its ridge points.
    texts = chromium.execute_script(
        "return Array.from(document.querySelectorAll("
        "'[data-spec=roofline] svg text'), (each) => each.textContent)"
    )
    (said,) = [text for text in texts if "of 20 modelled" in text]
    assert said.startswith("● 4 measured, ○ 12 of 20 modelled")
    for name in NAMES[-N_MEASURED:]:
        assert name in texts
    bars = count(chromium, "roof-shares", ".mark-rect.role-mark path")
    # 16 bars, and a line across each of those that were measured
    assert bars == 16 + N_MEASURED
    assert "● gru" in drawing(chromium, "roof-shares")
    # A modelled network that is not drawn is, where it is chosen, and has its bar.
    (absent, *_) = [name for name in NAMES[:-N_MEASURED] if name not in drawing_of_bars(chromium)]
    choose(chromium, "network", absent)
    assert f"○ {absent}" in drawing(chromium, "roof-shares")
    assert f", {absent}" in drawing(chromium, "roofline").replace("</text>", ", ")


def drawing_of_bars(chromium: Any) -> str:
    return drawing(chromium, "roof-shares")


def test_one_list_chooses_whose_layers_are_shown(chromium: Any, report: Path) -> None:
    from selenium.webdriver.support.ui import Select

    load(chromium, report, 1280)
    list_of = chromium.find_element("css selector", "select[data-mirrors=network]")
    first = Select(list_of).first_selected_option.text
    assert sorted(option.text for option in Select(list_of).options) == sorted(NAMES)
    assert first in drawing(chromium, "layers")
    other = next(name for name in NAMES if name != first)
    before = drawing(chromium, "layer-classes")
    chromium.execute_async_script(
        """
        const [list, value, done] = arguments;
        list.value = value;
        list.dispatchEvent(new Event("input", { bubbles: true }));
        const root = document.documentElement;
        const look = () =>
          JSON.parse(root.dataset.shown).network === value ? done() : setTimeout(look, 5);
        look();
        """,
        list_of,
        other,
    )
    assert chosen(chromium, "network") == other  # every chart follows
    assert drawing(chromium, "layer-classes") != before
    caption = chromium.execute_script(
        "return document.querySelector('table[data-live=layers] caption').textContent"
    )
    assert caption.startswith(f"Layers of {other}, batch 1")
    # The other way round: what the page's own control says, the list says.
    choose(chromium, "network", first)
    assert Select(list_of).first_selected_option.text == first
