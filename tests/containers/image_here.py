"""The image of a plain CPU built here, from what is installed here: no registry, no network."""

from __future__ import annotations

import time
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import msgspec

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.images.building import BuiltImage, Order, build_image
from mansard.containers.images.table import Image, read_table
from tests.containers.image_base import BASE, PYTHON, fill_with_wheels, import_base
from tests.inference.stand_in import FOLDER as STAND_IN

NAME = "here"
TABLE = f"""[images.{NAME}]
base = "{BASE}"
serves = "cpu"
architectures = ["x86_64", "aarch64"]
python = "{PYTHON}"
recipe = "plain"
libraries = "cpu"
source = "what is installed on the machine that tests"
"""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """An image that was built here, and how."""

    image: Image
    table: Path  # for --images: it comes before ours, so it is the one that fits
    wheels: Path
    built: BuiltImage
    lines: tuple[str, ...]  # of the build
    base_bytes: int
    prepare_s: float  # base and wheels; of the tests alone


# The same with TensorRT: a stand-in of its bindings, which runs networks on the CPU.
BASE_WITH_TENSORRT = "mansard-test/tensorrt:local"
TABLE_WITH_TENSORRT = (
    TABLE.replace(BASE, BASE_WITH_TENSORRT).replace(NAME, "here-tensorrt")
    + 'engines = ["tensorrt"]\n'
)
_BINDINGS = f"/usr/lib/python{PYTHON}/dist-packages"
_PARSING = (
    "onnx",
    "google",
    "ml_dtypes",
    "typing_extensions.py",
)  # that the stand-in of the builder needs
_PLAYED = ("STAND_IN_TENSORRT=10.3.0", "STAND_IN_DEVICE=orin", "STAND_IN_STEP_S=0.1")


def import_base_with_tensorrt(client: Any) -> None:
    """A base whose Python has a stand-in of TensorRT, where l4t-jetpack has the bindings."""
    folders = {f"{_BINDINGS}/{path.name}": path for path in STAND_IN.iterdir() if path.is_dir()}
    for name in _PARSING:
        folders[f"{_BINDINGS}/{name}"] = Path(str(distribution("onnx").locate_file(name)))
    changes = [f"ENV {variable}" for variable in _PLAYED]
    import_base(client, BASE_WITH_TENSORRT, folders=folders, changes=changes)


def build_here(address: str, folder: Path, *, with_tensorrt: bool = False) -> Here:
    """Build it on the engine there; ``folder`` keeps its table and wheels. Raises LookupError."""
    table, wheels = folder / "images.toml", folder / "wheels"
    table.write_text(TABLE_WITH_TENSORRT if with_tensorrt else TABLE)
    wheels.mkdir()
    image = read_table([table]).images[0]
    lines: list[str] = []
    with connect(address) as engine:
        started_s = time.monotonic()
        fill_with_wheels(wheels)
        (import_base_with_tensorrt if with_tensorrt else import_base)(engine.client)
        prepare_s = time.monotonic() - started_s
        order = Order(wheels=wheels, offline=True, tell=lines.append)
        return Here(
            image=image,
            table=table,
            wheels=wheels,
            built=build_image(engine, image, order),
            lines=tuple(lines),
            base_bytes=int(engine.client.images.get(image.base).attrs["Size"]),
            prepare_s=prepare_s,
        )


def python_in(engine: ContainerEngine, image: str, code: str, **options: Any) -> str:
    """What ``code`` prints in a container as bare as a measuring one."""
    bare = {
        "entrypoint": ["/opt/mansard/bin/python3", "-c", code],
        "user": "12345:12345",
        "read_only": True,
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": {"/tmp": "rw,mode=1777"},  # noqa: S108 - of the container
        "remove": True,
    }
    said: bytes = engine.client.containers.run(image, **{**bare, **options})
    return said.decode()
