"""What a report weighs, and how long Chromium takes to draw it.

    python benchmarks/report_page.py RUNS [--times 5]

RUNS is a folder of runs, as ``mansard bench`` leaves it. The times are the page's own: from the
first chart to the last, without loading the file. The exit code is always 0: a report.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import compute

DRAWN = "return document.documentElement.dataset.drawn"
MILLISECONDS = "return Number(document.documentElement.dataset.milliseconds)"


def main() -> int:
    """Parse, write the page, draw it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="a folder of runs")
    parser.add_argument("--times", type=int, default=5, help="how often to draw it")
    arguments = parser.parse_args()
    started = time.perf_counter()
    results = compute(ingest(arguments.runs))
    computed = time.perf_counter()
    text = render(results)
    rendered = time.perf_counter()
    n_charts = text.count("data-spec=")
    rows = [
        ("roofs, networks", f"{len(results.roofs)}, {len(results.names)}"),
        ("predictions", f"{len(results.predictions):,}"),
        ("computed in", f"{computed - started:.2f} s"),
        ("page made in", f"{rendered - computed:.2f} s"),
        ("page", f"{len(text.encode()) / 1e6:.2f} MB, limit 2 MB"),
        ("charts", str(n_charts)),
    ]
    with tempfile.TemporaryDirectory(prefix="mansard-page-") as folder:
        page = Path(folder) / "report.html"
        page.write_text(text)
        rows.append(("drawn in", _drawn_in(page, n_charts, arguments.times)))
    for name, value in rows:
        sys.stdout.write(f"{name:<18}{value}\n")
    return 0


def _drawn_in(page: Path, n_charts: int, times: int) -> str:
    """Median and range over ``times`` loads, or why there are none."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        return "unknown: chromium and chromedriver are not installed ('make browser' installs them)"
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = Options()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(flag)
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    try:
        seconds = []
        for _ in range(times):
            chromium.get(page.as_uri())
            WebDriverWait(chromium, 60).until(
                lambda view: view.execute_script(DRAWN) == str(n_charts)
            )
            seconds.append(float(chromium.execute_script(MILLISECONDS)) / 1e3)
    finally:
        chromium.quit()
    return f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), aim 2 s"


if __name__ == "__main__":
    sys.exit(main())
