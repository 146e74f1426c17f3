"""The scripts of a page: those of vl-convert, put together beside the report."""

from __future__ import annotations

from pathlib import Path

import pytest
import vl_convert

from mansard.analytics.pages.figures.figure import json_markup
from mansard.analytics.pages.report import page as pages
from mansard.analytics.pages.report import scripts
from mansard.analytics.pages.report.page import render

LICENSES = Path(pages.__file__).with_name("templates") / "licenses.txt"
REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_process_beside_makes_what_this_one_would_and_the_next_page_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    process = scripts.begin()
    assert process is not None
    assert process is scripts.begin()  # once for a process
    made = scripts.bundle()
    assert made == vl_convert.javascript_bundle()  # type: ignore[call-arg]

    forget()
    assert scripts.begin() is None
    assert scripts.bundle() == made
    (kept,) = (tmp_path / "caches/mansard").iterdir()

    # A damaged file is made again.
    kept.write_bytes(kept.read_bytes()[:-1])
    forget()
    assert scripts.bundle() == made
    forget()
    assert scripts.begin() is None
    # Where nothing can be kept they are made again.
    forget()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert scripts.bundle() == made


def forget() -> None:
    """As in another process."""
    scripts.begin.cache_clear()
    scripts.bundle.cache_clear()


def test_the_notices_of_the_scripts_stand_in_every_page_and_in_the_notice_file() -> None:
    # Their licences ask for it (BSD: "in the documentation and/or other materials").
    page = render("base.html.j2", {"title": "x", "figures": (), "datasets": json_markup({})})
    notices = [line.strip() for line in LICENSES.read_text().splitlines() if ": Copyright" in line]
    assert len(notices) == 17
    notice_file = " ".join((REPOSITORY / "NOTICE").read_text().split())
    for notice in notices:
        assert notice in page
        assert notice.partition(":")[0].split(",")[0].split(" and its")[0] in notice_file
    assert "Redistributions in binary form must reproduce the above copyright notice" in page
