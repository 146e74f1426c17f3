"""Makes a picture of a report: python tools/screenshot.py report.html out.png [--dark].

Needs selenium ('make setup-dev' installs it), Chromium and its driver ('make browser').
"""

from __future__ import annotations

import argparse
import base64
import shutil
import sys
import tempfile
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
except ModuleNotFoundError:
    sys.exit("screenshot.py: selenium is not installed; run 'make setup-dev'")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def main() -> int:
    """Parse, take the picture, say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true", help="as under a dark appearance")
    parser.add_argument("--width", type=int, default=1280, help="pixels")
    parser.add_argument("--height", type=int, help="pixels; default: the whole page")
    parser.add_argument("--section", help="only this section, for example 'roofline'")
    parser.add_argument("--device", help="choose this device first")
    parser.add_argument("--mode", help="choose this power mode")
    parser.add_argument("--network", help="show the layers of this network")
    parser.add_argument("--precision", help="show this precision alone")
    parser.add_argument("--scale", type=float, default=1.0, help="device pixels per pixel")
    arguments = parser.parse_args()
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        sys.exit("screenshot.py: chromium and chromedriver are not installed; run 'make browser'")
    if not arguments.report.is_file():
        sys.exit(f"screenshot.py: {arguments.report}: no such file; write it with mansard report")
    with tempfile.TemporaryDirectory(prefix="mansard-browser-") as profile:
        options = Options()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        chromium = webdriver.Chrome(options=options, service=Service(driver))
        try:
            arguments.picture.write_bytes(_take(chromium, arguments))
        finally:
            chromium.quit()
    sys.stdout.write(f"{arguments.picture}\n")
    return 0


def _take(chromium: webdriver.Chrome, arguments: argparse.Namespace) -> bytes:
    scheme = "dark" if arguments.dark else "light"
    chromium.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    # A window of Chromium is never narrower than 500 pixels; what it lays out may be.
    chromium.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": arguments.width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    chromium.get(arguments.report.resolve().as_uri())
    WebDriverWait(chromium, 30).until(
        lambda page: page.execute_script("return document.documentElement.dataset.drawn")
    )
    for name in ("device", "mode", "network", "precision"):
        value = getattr(arguments, name)
        if value is not None:
            _choose(chromium, name, value)
    area = chromium.execute_script(
        "const e = arguments[0] ? document.getElementById(arguments[0]) : document.documentElement;"
        "if (!e) { return null; }"
        "const r = e.getBoundingClientRect();"
        "return [r.left + scrollX, r.top + scrollY, r.width, e.scrollHeight]",
        arguments.section,
    )
    if area is None:
        raise SystemExit(f"the report has no section {arguments.section!r}")
    left, top, width, height = area
    clip = {
        "x": left,
        "y": top,
        "width": width,
        "height": arguments.height or height,
        "scale": arguments.scale,
    }
    picture = chromium.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
    )
    return base64.b64decode(picture["data"])


def _choose(chromium: webdriver.Chrome, name: str, value: str) -> None:
    """Set a control of the page as a reader would, and wait until the charts have followed."""
    chromium.execute_async_script(
        "for (const e of document.querySelectorAll(`[name='${arguments[0]}']`)) {"
        "  if (e.tagName === 'SELECT') { e.value = arguments[1]; }"
        "  else if (e.value === arguments[1]) { e.checked = true; } else { continue; }"
        "  e.dispatchEvent(new Event('input', {bubbles: true}));"
        "  e.dispatchEvent(new Event('change', {bubbles: true}));"
        "  break;"
        "}"
        "setTimeout(arguments[2], 500);",
        name,
        value,
    )


if __name__ == "__main__":
    sys.exit(main())
