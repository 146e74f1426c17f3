"""Data sets: folders and labels as users have them, images to pixels by hand, files of samples."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mansard.core.errors import InputError, StorageError, UsageError
from mansard.inference.accuracy import batches, read_labels
from mansard.inference.npz import read_arrays
from mansard.inference.plan import InputSpec
from mansard.inference.preparing.datasets import find_dataset, spread_indexes
from mansard.inference.preparing.preprocessing import (
    PRESETS,
    fit,
    parse_preprocessing,
    read_image,
)
from mansard.inference.preparing.samples import random_samples, samples_for, write_samples
from tests.inference.npz_files import npy, zipped
from tests.inference.small_networks import uniform

PICTURE = uniform("x", (2, 3, 4, 4))
UNIT = parse_preprocessing("unit")


def picture(path: Path, colour: tuple[int, int, int] = (10, 20, 30), size: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), colour).save(path)
    return path


def test_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("zebra/1.png", "ape/1.png", "ape/sub/2.PNG", "bear/1.png"):
        picture(tmp_path / name)
    found = find_dataset(tmp_path)
    assert found.images == ("ape/1.png", "ape/sub/2.PNG", "bear/1.png", "zebra/1.png")
    assert found.labels == (0, 0, 1, 2)
    samples_for(found, [PICTURE], UNIT, n_classes=3)
    with pytest.raises(UsageError, match=r"3 folders and the network has 1000 classes"):
        samples_for(found, [PICTURE], UNIT, n_classes=1000)


def test_folders_called_by_numbers_are_these_classes(tmp_path: Path) -> None:
    for name in ("7/a.png", "10/a.png"):
        picture(tmp_path / name)
    found = find_dataset(tmp_path)
    assert found.labels == (10, 7)  # in the order of paths: 10 before 7
    samples_for(found, [PICTURE], UNIT, n_classes=1000)
    with pytest.raises(UsageError, match="label 10 is none of the network's 10 classes"):
        samples_for(found, [PICTURE], UNIT, n_classes=10)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "image,label\na.png,1\nsub/b.png,0\n"),
        ("labels.csv", '"b.png",0\n\n"a.png",1\n'),
        ("labels.txt", "a.png 1\nb 0\n"),
        ("labels.txt", "1\n0\n"),
        ("labels.csv", "\ufeffa.png,1\nb.png,0\n"),
        ("labels.txt", "\ufeff1\n0\n"),
    ],
)
def test_labels_of_a_file(tmp_path: Path, name: str, text: str) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "sub/b.png")
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert find_dataset(tmp_path).labels == (1, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.png,1\n", r"1 of 2 images have no label, the first is 'sub/a.png'"),
        ("a.png,1\nsub/a.png,0\nc.png,1\n", r"'c.png' is none of the images"),
        ("a.png,1\na.png,2\nsub/a.png,0\n", r"'a.png' has two classes"),
        ("a.png,1\nsub/a.png,cat\n", r"line 2 has no class"),
        ("1\n", r"1 labels and 2 samples"),
        ("a.png,1x\nsub/a.png,0\n", r"line 1 has no class"),
        ("a.png,1\nsub/a.png," + 5000 * "9", r"line 2 has no class"),
        ("a,1\n", r"'a' is none of the images, or several of them"),
        ("image,label\n", r"it has no labels"),
        ("\xff", r"it is not text"),
    ],
)
def test_labels_that_do_not_match_are_one_line(tmp_path: Path, text: str, said: str) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "sub/a.png")
    labels = tmp_path / "my.csv"
    labels.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=said):
        find_dataset(tmp_path, labels)


def test_images_in_folders_and_beside_them(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    picture(tmp_path / "sub/b.png")
    with pytest.raises(InputError, match="in folders and beside them"):
        find_dataset(tmp_path)
    alone = tmp_path / "sub"
    assert find_dataset(alone).labels is None


def test_an_image_is_resized_cropped_and_turned_by_hand(tmp_path: Path) -> None:
    # 8 × 4: the left half is black, the right one white but for a red pixel row at the bottom.
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 4:] = 255
    pixels[3] = (255, 0, 0)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    # The shorter side is 4 already; the middle of 4 columns is 2 to 5.
    how = fit(parse_preprocessing("unit,resize=4"), uniform("x", (1, 3, 4, 4)))
    found = read_image(tmp_path / "a.png", how)
    assert found.shape == (3, 4, 4)
    assert found[:, 0, :].tolist() == [[0, 0, 255, 255]] * 3
    assert found[:, 3, 0].tolist() == [255, 0, 0]
    blue_first = fit(parse_preprocessing("caffe,resize=4"), uniform("x", (1, 4, 4, 3)))
    other = read_image(tmp_path / "a.png", blue_first)
    assert other.shape == (4, 4, 3)
    assert other[3, 0].tolist() == [0, 0, 255]
    # The luma of red by ITU-R BT.601, as Pillow takes it: 255 · 299 / 1000 = 76.2.
    grey = fit(parse_preprocessing("unit,resize=4"), uniform("x", (1, 1, 4, 4)))
    assert read_image(tmp_path / "a.png", grey)[0, 3, 0] == 76


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(
    ("shape", "is_first"),
    [
        ((2, 3, 32, 32), True),
        ((2, 3, 20, 32), True),  # not square
        ((2, 32, 20, 3), False),
        ((1, 1, 9, 5), True),  # grey
    ],
)
def test_an_image_in_the_size_of_the_input_keeps_each_pixel(
    tmp_path: Path, name: str, shape: tuple[int, int, int, int], is_first: bool
) -> None:
    n_channels, height, width = shape[1:] if is_first else (shape[3], *shape[1:3])
    if n_channels == 1:  # one mean of each preset
        name += ",channels=grey,mean=0,deviation=1"
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, n_channels), np.uint8)
    Image.fromarray(pixels.squeeze()).save(tmp_path / "a.png")
    how = fit(parse_preprocessing(name), uniform("x", shape))
    expected = pixels[:, :, ::-1] if how.channels == "bgr" else pixels
    expected = expected.transpose(2, 0, 1) if is_first else expected
    assert np.array_equal(read_image(tmp_path / "a.png", how), expected)
    assert how.words.startswith(f"{height} × {width} as it is, else resize ")
    # Asked for by its size, the resize of torchvision's recipe happens also here.
    recipe = fit(parse_preprocessing(f"{name},resize=40"), uniform("x", shape))
    assert not np.array_equal(read_image(tmp_path / "a.png", recipe), expected)
    assert recipe.words.startswith(f"resize 40, crop {height} × {width}, ")


def test_raw_takes_the_whole_of_a_larger_image(tmp_path: Path) -> None:
    # 8 × 8 to 4 × 4, without the share of 256 / 224 that a crop would cut off again.
    Image.new("RGB", (8, 8), (7, 8, 9)).save(tmp_path / "a.png")
    how = fit(PRESETS["raw"], uniform("x", (1, 3, 4, 4)))
    assert how.words.startswith("4 × 4 as it is, else resize 4, crop 4 × 4, rgb")
    assert read_image(tmp_path / "a.png", how)[:, 0, 0].tolist() == [7, 8, 9]


def test_imagenet_of_224_is_resized_to_256() -> None:
    how = fit(parse_preprocessing(None), uniform("x", (1, 3, 224, 224)))
    assert (how.resize, how.height, how.width, how.channels) == (256, 224, 224, "rgb")
    assert how.words == (
        "224 × 224 as it is, else resize 256, crop 224 × 224, rgb, channels first, /255, "
        "mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225"
    )
    # 299 · 256 / 224 = 341.7.
    assert fit(PRESETS["imagenet"], uniform("x", (1, 3, 299, 299))).resize == 342


@pytest.mark.parametrize(
    ("text", "shape", "said"),
    [
        ("imagenet", (1, 1, 8, 8), "gives rgb, input 'x' has 1 channel"),
        ("unit,crop=8", (1, 3, 8, 8), "crop='8'"),
        ("unit,scale=inf", (1, 3, 8, 8), "scale='inf'"),
        ("unit,deviation=1e-50", (1, 3, 8, 8), "deviation='1e-50'"),
        ("unit,mean=nan", (1, 3, 8, 8), "mean='nan'"),
        ("unit,resize=7", (1, 3, 8, 8), "resize 7 is less than the crop"),
        ("unit,mean=1/2", (1, 3, 8, 8), "mean has 2 numbers, the network 3 channels"),
        ("unit,deviation=0", (1, 3, 8, 8), "deviation='0'"),
        ("unit,size=3", (1, 3, 8, 8), "size='3'"),
        ("unit,resize", (1, 3, 8, 8), "--preprocess has 'resize'"),
        ("unit", (1, 16), "images are"),
        ("unit", (1, 5, 8, 8), "images are"),
    ],
)
def test_preprocessing_that_does_not_fit(text: str, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fit(parse_preprocessing(text), uniform("x", shape))


def test_the_sizes_of_torchvision_by_hand(tmp_path: Path) -> None:
    # 640 × 427 with 256 for the shorter side: 256 · 640 / 427 = 383.7, of which 383 are taken. The
    # middle begins at round((383 - 224) / 2) = round(79.5) = 80 and round((256 - 224) / 2) = 16.
    random = np.random.default_rng(0).integers(0, 256, (427, 640, 3), dtype=np.uint8)
    source = Image.fromarray(random)
    source.save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", fit(UNIT, uniform("x", (1, 224, 224, 3))))
    resized = source.resize((383, 256), Image.Resampling.BILINEAR)
    assert np.array_equal(found, np.asarray(resized)[16:240, 80:304])


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (b"no array", "it is no .npz of arrays, or damaged"),
        (npy("{'descr': '<f4', 'shape': ("), "it is no .npz of arrays, or damaged"),
        (npy('"""'), "it is no .npz of arrays, or damaged"),
        (npy("{[]:1}"), "it is no .npz of arrays, or damaged"),
        *(
            (npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"), "is cut short")
            for shape in ("(-1, 4)", "(3, -4)", "(9223372036854775807, 4)", "(1, 1)")
        ),
        (
            npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1)}", bytes(8)),
            "stored by columns; write numpy.ascontiguousarray",
        ),
    ],
)
def test_arrays_that_cannot_be_are_one_line(tmp_path: Path, member: bytes, said: str) -> None:
    with ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(InputError, match=said):
        find_dataset(tmp_path / "x.npz")


def test_an_array_that_nobody_asks_for_is_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(3))
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({3 << 30},)}}"
    path = zipped(tmp_path / "x.npz", "junk", header, b"", claimed_bytes=(3 << 30) + 1000)
    assert read_arrays(path, ["x"])["x"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"take 3\.0 GiB, more than the 2 GiB"):
        read_arrays(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4)}", "shape"),
        (f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({'1, ' * 40})}}", "shape"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "holds Python objects"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (True, -1)}", "cut short|damaged"),
    ],
)
def test_headers_that_no_array_has_are_one_line(tmp_path: Path, header: str, words: str) -> None:
    path = zipped(tmp_path / "x.npz", "x", header, bytes(64))
    with pytest.raises(InputError, match=words):
        read_arrays(path)


def test_names_outside_the_archive_are_only_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}"
    path = zipped(tmp_path / "a/x.npz", "../x", header, b"\1\2")
    assert read_arrays(path)["../x"].tolist() == [1, 2]
    assert [file.name for file in tmp_path.rglob("*")] == ["a", "x.npz"]


def test_columns_and_zip64_are_read(tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    with (
        ZipFile(tmp_path / "x.npz", "w") as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write((tmp_path / "x.npy").read_bytes())
    assert read_arrays(tmp_path / "x.npz")["x"].tolist() == array.tolist()
    with pytest.raises(InputError, match=r"it is no \.npz of arrays"):
        read_arrays(tmp_path / "x.npy")


def test_thousands_of_arrays_are_refused(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.npz", "w") as archive:
        for number in range(10_001):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(InputError, match="it has more than 10,000 arrays"):
        read_arrays(tmp_path / "x.npz", ["x"])


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x02\x00" + (3 << 30).to_bytes(4, "little") + b"{}")
    with pytest.raises(InputError, match="too long a header"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("method", [ZIP_LZMA, ZIP_DEFLATED])
def test_a_damaged_archive_is_one_line(tmp_path: Path, method: int) -> None:
    path = tmp_path / "x.npz"
    random = np.random.default_rng(0).integers(0, 256, (40, 8), dtype=np.uint8)
    np.save(tmp_path / "x.npy", random)
    with ZipFile(path, "w", method) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    content = bytearray(path.read_bytes())
    content[100:300] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_arrays(path)


def test_an_encrypted_member_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.zeros((2, 2)))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # the flag of encryption
    path.write_bytes(content)
    with pytest.raises(InputError, match="encrypted"):
        find_dataset(path)


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (np.zeros((4, 4), np.uint16), "mode I;16, not of 8 bits"),
        (np.zeros((4, 4), np.float32), "mode F, not of 8 bits"),
        (np.zeros((60_000, 1), np.uint8), "resized to 256 × 15360000 it is too large"),
    ],
)
def test_images_that_would_be_other_numbers_are_refused(
    tmp_path: Path, pixels: np.ndarray, said: str
) -> None:
    path = tmp_path / "a.tif"
    Image.fromarray(pixels).save(path)
    with pytest.raises(InputError, match=said):
        read_image(path, fit(PRESETS["imagenet"], uniform("x", (1, 3, 224, 224))))


def test_an_input_of_int8_holds_no_pixels() -> None:
    spec = InputSpec(name="x", type_name="int8", shape=(1, 3, 8, 8), fill="integers", high=9.0)
    with pytest.raises(UsageError, match="is int8, which holds no pixels"):
        fit(UNIT, spec)


def test_pixels_for_bfloat16_are_its_bits(tmp_path: Path) -> None:
    picture(tmp_path / "set/a.png", colour=(255, 0, 51))
    spec = InputSpec(name="x", type_name="bfloat16", shape=(1, 3, 4, 4), fill="uniform", high=1.0)
    samples = samples_for(find_dataset(tmp_path / "set"), [spec], UNIT)
    write_samples(samples, tmp_path)
    ((_, fed),) = batches(samples.file, [spec], tmp_path)
    # 1.0 = 0x3F800000, 0, and 0.2 = 0x3E4CCCCD, of which the upper halves are taken.
    assert fed["x"].dtype == np.uint16
    assert fed["x"][0, :, 0, 0].tolist() == [0x3F80, 0, 0x3E4C]


def test_names_that_are_no_text_are_read(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/set\xff"))
    picture(folder / os.fsdecode(b"a\xfe.png"))
    found = find_dataset(folder)
    assert found.name == "set\N{REPLACEMENT CHARACTER}"
    assert write_samples(samples_for(found, [PICTURE], UNIT), tmp_path)


def test_samples_of_images_are_pixels_and_those_for_calibration_numbers(tmp_path: Path) -> None:
    for at in range(5):
        picture(tmp_path / f"set/{at % 2}/{at}.png", colour=(at, 51, 255))
    found = find_dataset(tmp_path / "set")
    samples = samples_for(found, [PICTURE], UNIT, most=2)
    # Sorted 0/0 0/2 0/4 1/1 1/3: the first and, from 5 · 1 / 2 on, the third.
    assert samples.indexes == (0, 2)
    path = tmp_path / write_samples(samples, tmp_path)
    assert read_labels(path).tolist() == [0, 0]
    ((n_new, fed),) = batches(samples.file, [PICTURE], tmp_path)
    assert n_new == 2
    assert fed["x"].dtype == np.float32
    assert fed["x"][1, :, 0, 0].tolist() == pytest.approx([4 / 255, 0.2, 1.0])
    numbers = samples_for(found, [PICTURE], UNIT, is_for_calibration=True)
    assert not numbers.file.is_labelled
    write_samples(numbers, tmp_path)
    given_first = next(iter(batches(numbers.file, [PICTURE], tmp_path)))[1]["x"]
    assert given_first[0, :, 0, 0].tolist() == pytest.approx([0.0, 0.2, 1.0])
    # A byte for each pixel, beside headers and labels; four for numbers.
    sizes = [(tmp_path / each.file.file).stat().st_size for each in (samples, numbers)]
    assert 2 * 48 < sizes[0] < 5 * 48 * 4 < sizes[1]


def test_an_image_that_cannot_be_read_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    picture(tmp_path / "set/a.png")
    (tmp_path / "set/b.png").write_bytes((tmp_path / "set/a.png").read_bytes()[:40])
    samples = samples_for(find_dataset(tmp_path / "set"), [PICTURE], UNIT)
    with pytest.raises(InputError, match=r"b\.png: cannot be read as an image"):
        write_samples(samples, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_an_image_or_array_that_was_changed_is_not_written(tmp_path: Path) -> None:
    image = picture(tmp_path / "set/a.png")
    samples = samples_for(find_dataset(tmp_path / "set"), [PICTURE], UNIT)
    picture(image, colour=(9, 9, 9))
    with pytest.raises(InputError, match=r"a\.png: it was changed since it was looked at"):
        write_samples(samples, tmp_path)
    x = np.zeros((2, 3, 4, 4), np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    samples = samples_for(find_dataset(tmp_path / "x.npz"), [PICTURE], UNIT)
    np.savez(tmp_path / "x.npz", x=x + 1)
    with pytest.raises(InputError, match=r"x\.npz: it was changed since it was looked at"):
        write_samples(samples, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"set", "x.npz"}


def test_samples_that_the_disk_has_no_space_for_are_one_line(tmp_path: Path) -> None:
    shape = (1 << 30, 1 << 20)  # 4 PiB of fp32 in each sample
    specs = [uniform("x", (2, *shape))]
    with pytest.raises(StorageError, match="16 samples of random need about 72,057,594,038 MB"):
        write_samples(random_samples(specs, seed=3), tmp_path)


def test_another_content_is_another_file(tmp_path: Path) -> None:
    picture(tmp_path / "set/0/a.png")
    picture(tmp_path / "set/1/b.png")
    first = samples_for(find_dataset(tmp_path / "set"), [PICTURE], UNIT).file.file
    assert first == samples_for(find_dataset(tmp_path / "set"), [PICTURE], UNIT).file.file
    raw = samples_for(find_dataset(tmp_path / "set"), [PICTURE], PRESETS["raw"])
    assert raw.file.file != first
    picture(tmp_path / "set/1/b.png", colour=(1, 2, 3))
    assert samples_for(find_dataset(tmp_path / "set"), [PICTURE], UNIT).file.file != first


def test_random_samples_differ_and_are_the_same_again(tmp_path: Path) -> None:
    ids = InputSpec(name="ids", type_name="int64", shape=(2, 3), fill="integers", high=9.0)
    samples = random_samples([uniform("x", (2, 4)), ids], seed=3)
    path = tmp_path / write_samples(samples, tmp_path)
    arrays = np.load(path)
    assert arrays["x"].shape == (16, 4)
    assert arrays["ids"].shape == (16, 3)
    assert len(np.unique(arrays["x"], axis=0)) == 16
    assert arrays["ids"].max() < 9
    before = path.read_bytes()
    path.unlink()
    write_samples(samples, tmp_path)
    assert path.read_bytes() == before


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 600)))
def test_chosen_samples_are_spread_and_none_is_taken_twice(n_all: int, most: int | None) -> None:
    found = spread_indexes(n_all, most)
    assert len(found) == min(n_all, most or n_all)
    steps = np.diff([*found, n_all + found[0]])
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1
    assert found[0] == 0
