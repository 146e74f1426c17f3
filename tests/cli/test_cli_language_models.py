"""What commands say of language models: bad files, what cannot be done with one, rates."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest

from tests.cli.in_process import mansard

NAME = "smollm2-135m:Q8_0"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with files as people give them."""
    header = json.dumps({"w": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:  # as torch.save writes it
        archive.writestr("model/data.pkl", b"\x80\x02N.")
    (tmp_path / "model.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(60))
    # One tensor and one key are announced, and then the file ends.
    (tmp_path / "cut.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 1))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/config.json").write_text('{"model_type": "mamba2"}', encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", ["score", "fit"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.safetensors", "give the folder with its config.json, or a .gguf file"),
        ("model.pt", "a file of the format PyTorch"),
        ("model.tflite", "a file of the format TensorFlow Lite"),
        ("cut.gguf", "the file is cut"),
        ("folder", "mamba2"),
        ("llama-9b", "no network or language model is called 'llama-9b'; did you mean"),
        ("no-such", "is called 'no-such'; 'mansard models list' shows their names"),
    ],
)
def test_what_cannot_be_counted_is_one_line(
    files: Path, command: str, name: str, said: str
) -> None:
    done = mansard(command, name, cwd=files)
    assert done.returncode == (2 if said.startswith(("no network", "is called")) else 1)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("mansard: ")
    assert said in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("measure", NAME), "measure its server: mansard measure --server URL"),
        (("multi", "run", NAME, "resnet18"), "measure its server: mansard measure --server URL"),
        (("measure", NAME, "--each-layer", "all"), "measure its server"),
        (("score", NAME, "--phase", "training"), "export the model to ONNX"),
        (("fit", NAME, "--context", "1k,2k"), "--context of 'mansard models fit' is one length"),
        (("fit", NAME, "--context", "many"), "'many' is not a number of tokens"),
        (("recommend", "resnet50", "--max-first-token", "1s"), "there is no such folder"),
    ],
)
def test_what_is_done_with_other_networks_alone_is_said(
    files: Path, words: tuple[str, ...], said: str
) -> None:
    done = mansard(*words, cwd=files)
    assert done.returncode in {1, 2}
    assert said in done.stderr.splitlines()[-1]


def test_rates_are_of_tokens_and_prompts(files: Path) -> None:
    assert mansard("import", "--hardware", "Orin Nano 8GB Super", cwd=files).returncode == 0
    done = mansard("batch", NAME, "--batch", "1,8", "--prompt", "256", "--context", "1k", cwd=files)
    decode, prefill = (part for part in done.stdout.split("\n\n") if "[" in part)
    assert f"{NAME} [decode 1024]" in decode
    assert "tokens/s" in decode
    assert "most tokens per second" in decode
    assert f"{NAME} [prefill 256]" in prefill
    assert "prompts/s" in prefill
    assert "item" not in done.stdout


def test_recommendations_name_the_server_that_tells(files: Path) -> None:
    assert mansard("import", "--hardware", "Orin Nano 8GB Super", cwd=files).returncode == 0
    done = mansard(
        "recommend", NAME, "--min-tokens-per-s", "100", "--max-first-token", "1s", "-v", cwd=files
    )
    assert done.returncode == 0
    assert "tokens/s" in done.stdout
    assert "mansard measure --server URL" in done.stdout
    assert "items/s" not in done.stdout
