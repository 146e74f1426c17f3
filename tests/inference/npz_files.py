"""Files of arrays that nobody would write: headers by hand, and data that are not there."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile


def npy(header: str, content: bytes = b"") -> bytes:
    """A file of NumPy with this header."""
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def zipped(path: Path, name: str, header: str, data: bytes, claimed_bytes: int = 0) -> Path:
    """An .npz with an array more; ``claimed_bytes``: what its directory says of the size."""
    with ZipFile(path, "a", ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", npy(header) + data)
        if claimed_bytes:
            archive.filelist[-1].file_size = claimed_bytes
    return path


def without_data(path: Path, **arrays: tuple[str, tuple[int, ...]]) -> Path:
    """An .npz of headers, type and shape of each: reading any number of it is an error."""
    for name, (descr, shape) in arrays.items():
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"
        zipped(path, name, header, b"", claimed_bytes=1 << 50)
    return path
