"""What is carried to the machine with the card: pins, wheels, and the size of it all."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mansard.core.errors import InputError, MansardError, UsageError
from tools.card_check import preparing
from tools.card_check.__main__ import ROOT
from tools.card_check.preparing import folder_bytes, pin_of, prepare, tree_bytes

PINS = """# a comment
numpy==2.2.6 ; python_version < '3.11'
numpy==2.5.2 ; python_version >= '3.11'
Some_Package==1.0
"""


@pytest.mark.parametrize(
    ("package", "python", "pin"),
    [
        ("numpy", "3.10", "numpy==2.2.6"),
        ("numpy", "3.12", "numpy==2.5.2"),
        ("some-package", "3.12", "Some_Package==1.0"),
    ],
)
def test_a_pin_is_that_of_the_python_there(
    tmp_path: Path, package: str, python: str, pin: str
) -> None:
    (tmp_path / "constraints.txt").write_text(PINS)
    assert pin_of(package, python, tmp_path / "constraints.txt") == pin


def test_a_package_without_a_pin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text(PINS)
    with pytest.raises(UsageError, match=r"'pandas' has no pin for Python 3\.12"):
        pin_of("pandas", "3.12", tmp_path / "constraints.txt")
    with pytest.raises(UsageError, match="write it as"):
        prepare(["msgspec"], "312", tmp_path / "site")


def test_wheels_are_unpacked_for_the_python_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pin = pin_of("msgspec", "3.12", ROOT / "constraints.txt")
    version = pin.partition("==")[2]
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    # Two made-up wheels: pip takes the one of the Python that is named, not of its own.
    for python in ("cp310", "cp312"):
        tag = f"{python}-{python}-manylinux_2_17_x86_64"
        with zipfile.ZipFile(wheels / f"msgspec-{version}-{tag}.whl", "w") as wheel:
            wheel.writestr("msgspec/__init__.py", f"made_for = {python!r}\n")
            info = f"msgspec-{version}.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Name: msgspec\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    into = tmp_path / "site"
    assert prepare(["msgspec"], "3.12", into) == 0
    assert (into / "msgspec/__init__.py").read_text() == "made_for = 'cp312'\n"
    said = capsys.readouterr().out
    assert pin in said
    assert "MiB in all" in said
    with pytest.raises(MansardError, match="pip does not fetch"):
        prepare(["msgspec"], "3.13", into)
    assert (into / "msgspec").is_dir()  # what was there stays


def test_the_tree_is_what_git_does_not_ignore(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("/ignored\n")  # 9 bytes
    (tmp_path / "ignored").write_bytes(b"x" * 1000)
    (tmp_path / "untracked").write_bytes(b"x" * 20)
    site = tmp_path / "site"
    site.mkdir()
    (site / "wheel").write_bytes(b"x" * 300)
    assert tree_bytes(tmp_path, site) == 9 + 20
    assert folder_bytes(site) == 300


def test_too_much_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with (tmp_path / "large").open("wb") as file:
        file.truncate((64 << 20) + (1 << 19))  # 64.5 MiB that take no room
    with pytest.raises(InputError, match=r"64\.5 MiB are more than the 64 that may travel"):
        preparing.tell_size(tmp_path, tmp_path / "site")


def test_it_prepares_with_a_python_that_has_pip_alone() -> None:
    # -S: no packages of the environment's, as in a new checkout; a wrong option ends it early.
    command = [sys.executable, "-S", "-m", "tools.card_check", "prepare", "--python", "312"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "card_check: --python '312' is not a version; write it as 3.12\n"
