"""Fills /opt/mansard while an image is built: runs there, with the Python of the base image.

An environment of Python's own ``venv`` and not a plain folder: NVIDIA's packages look for
their libraries in site-packages alone, and Numba's CUDA target is hooked in by a ``.pth``
file, which is read nowhere else.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

BUILD = Path("/build")
HOME = Path("/opt/mansard")
LIST = BUILD / "libraries.txt"
WHEELS = BUILD / "wheels"
STANDALONE = Path("/opt/python")  # for base images without Python
# A sixth of what NumPy and Numba bring are their own tests; of ONNX Runtime, what makes and
# changes networks.
NEEDLESS = (
    *("**/tests", "**/*.pyi", "numpy/**/*.a", "bin"),
    *("onnxruntime/tools", "onnxruntime/transformers", "onnxruntime/quantization"),
    "onnxruntime/datasets",
)
# Of Python itself: its tests, its editor and drawing, and what installs more of it.
NEEDLESS_OF_PYTHON = (
    *("lib/python3*/test", "lib/python3*/idlelib", "lib/python3*/tkinter"),
    *("lib/python3*/lib2to3", "lib/python3*/ensurepip", "lib/python3*/turtledemo"),
    *("lib/python3*/site-packages/*", "lib/tcl*", "lib/tk*", "lib/itcl*", "lib/thread*"),
    *("include", "share"),
)


def main() -> int:
    """Install the list, remove what measuring never uses, compile the rest."""
    packages = make_environment()
    done = install(packages)
    if done:
        return done
    remove(packages, NEEDLESS)
    link_tensorrt(packages)
    compileall.compile_dir(packages, quiet=2, workers=0)
    if STANDALONE.is_dir():
        remove(STANDALONE, NEEDLESS_OF_PYTHON)
    return 0


def make_environment() -> Path:
    """An environment without pip in ``HOME``; its folder of packages."""
    venv.create(HOME, with_pip=False, symlinks=True)
    (packages,) = HOME.glob("lib/python3*/site-packages")
    return packages


def link_tensorrt(packages: Path) -> None:
    """Make the base image's TensorRT bindings importable, if they are for this version of Python.

    Their folder comes after ours: what it has besides never stands before what was installed.
    """
    version = f"python3.{sys.version_info.minor}"
    places = [Path(place, version, "dist-packages") for place in ("/usr/local/lib", "/usr/lib")]
    folders = [place for place in (*places, Path("/usr/lib/python3/dist-packages")) if has(place)]
    if folders:
        (packages / "tensorrt.pth").write_text("".join(f"{place}\n" for place in folders[:1]))


def has(place: Path) -> bool:
    """Whether ``place`` has TensorRT's bindings for this version of Python."""
    built = f"cpython-3{sys.version_info.minor}-"
    libraries = list(place.glob("tensorrt/**/*.so"))
    return (place / "tensorrt").is_dir() and (
        not libraries or any(built in library.name for library in libraries)
    )


def install(packages: Path) -> int:
    """Run pip on the list; its exit code. If there are wheels beside it, only they are used.

    What comes from an index has the hash that the list gives. Wheels beside it are their owner's,
    who may have built them.
    """
    offline = any(WHEELS.glob("*.whl"))
    if offline:
        LIST.write_text(without_hashes(LIST.read_text()))
    sources = ("--no-index", "--find-links", str(WHEELS)) if offline else ()
    # The list is complete: --no-deps keeps pip from asking for more. No source is compiled.
    options = ("--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir")
    checked = () if offline else ("--require-hashes",)
    quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar=off")
    command = [sys.executable, "-m", "pip", "install", *options, *checked, *quiet, *sources]
    print(f"installing {LIST.name}", "from wheels" if offline else "from the index", flush=True)  # noqa: T201 - the build's own log
    return subprocess.run(
        [*command, "--target", str(packages), "--requirement", str(LIST)],
        check=False,
        # An option only of newer pips: as a variable the older ones pass over it. Bases of NVIDIA's
        # have constraints for what they bring themselves.
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore", "PIP_CONSTRAINT": ""},
    ).returncode


def without_hashes(text: str) -> str:
    """The pins of a list alone."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--hash="))
    return "".join(line.removesuffix(" \\") + "\n" for line in lines)


def remove(folder: Path, patterns: tuple[str, ...]) -> None:
    """Remove what matches from ``folder``."""
    for pattern in patterns:
        for path in list(folder.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
