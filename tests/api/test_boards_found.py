"""What counts as a board: its nvpmodel.conf, whatever it is, or its device tree."""

from __future__ import annotations

from pathlib import Path

from mansard.api.boards import _has_nvpmodel


def test_a_file_or_a_link_of_nvpmodel_makes_a_board(tmp_path: Path) -> None:
    assert not _has_nvpmodel(tmp_path)
    conf = tmp_path / "etc/nvpmodel.conf"
    conf.parent.mkdir()
    conf.symlink_to("nvpmodel/gone.conf")  # a link that leads nowhere is a fault to be told
    assert _has_nvpmodel(tmp_path)
    conf.unlink()
    conf.write_text("")
    assert _has_nvpmodel(tmp_path)
