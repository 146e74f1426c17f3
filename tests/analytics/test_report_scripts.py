"""The scripts of a page: those of vl-convert, put together beside the report."""

from __future__ import annotations

import vl_convert

from mansard.analytics.report import scripts


def test_the_process_beside_makes_what_this_one_would() -> None:
    process = scripts.begin()
    assert process is scripts.begin()  # once for a process
    assert scripts.bundle() == vl_convert.javascript_bundle()  # type: ignore[call-arg]
