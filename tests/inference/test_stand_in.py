"""The stand-in of TensorRT refuses an object as its bindings do."""

from __future__ import annotations

import pytest

from tests.inference import stand_in


def test_an_overridden_initialiser_calls_its_base() -> None:
    with stand_in.played():
        import tensorrt

        class Calibrator(tensorrt.IInt8EntropyCalibrator2):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

        with pytest.raises(TypeError, match="must be called when overriding __init__"):
            Calibrator()
