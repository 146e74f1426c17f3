"""How to cite: the file and the page agree with the version, and name nothing that is unknown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mansard.core.version import VERSION

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra docs")
ROOT = Path(__file__).resolve().parents[2]


def test_the_file_and_the_page_are_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["cff-version"], cited["version"]) == ("1.2.0", VERSION)
    assert cited["license"] == "Apache-2.0"
    assert cited["authors"] == [{"name": "The Mansard developers"}]
    # No address and no identifier is known.
    assert not {"url", "repository-code", "doi", "identifiers", "date-released"} & cited.keys()
    page = (ROOT / "docs/start/citing.md").read_text("utf-8")
    fields = dict(re.findall(r"^  (\w+) += \{(.*)\},?$", page, re.MULTILINE))
    assert fields["version"] == VERSION
    assert re.sub(r"[{}]", "", fields["title"]) == cited["title"]
    assert fields["author"] == "{The Mansard developers}"
