"""MNIST and CIFAR-10 from real files: placed by hand, packed, broken, tampered with, or not there at all."""

import gzip
import hashlib
import io
import pickle
import shutil
import struct
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision import datasets

from helpers import downloads
from helpers.data import MNIST_STD, DataError, load

FILES = [f"{split}-{kind}" for split in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection, whatever the machine could reach."""

    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no network in this test")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def mnist_contents() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    sizes = {"train": 12, "t10k": 8}
    return {
        name: idx(rng.integers(0, 256, (count, 28, 28)) if "images" in name else rng.integers(0, 10, count))
        for name in FILES
        for count in [sizes[name.split("-")[0]]]
    }


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder with MNIST's four unpacked files, placed by hand."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in mnist_contents().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with MNIST's four archives, whose checksums torchvision is told."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    resources = []
    for name, content in mnist_contents().items():
        packed = gzip.compress(content)
        (folder / f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    return folder


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("download", [True, False])
def test_unpacked_files_placed_by_hand_are_used(tmp_path: Path, raw: Path, download: bool):
    mnist = load("mnist", root=tmp_path, download=download)
    assert (mnist.train.images.shape, mnist.test.images.shape) == ((12, 1, 28, 28), (8, 1, 28, 28))
    content = mnist_contents()["train-images-idx3-ubyte"][16:]
    assert (mnist.pixels(mnist.train.images) * 255).round().byte().numpy().tobytes() == content
    assert bytes(mnist.train.labels.tolist()) == mnist_contents()["train-labels-idx1-ubyte"][8:]
    assert mnist.classes == tuple("0123456789")


@pytest.mark.parametrize("download", [True, False])
def test_archives_placed_by_hand_are_unpacked_and_used(tmp_path: Path, archives: Path, download: bool):
    assert len(load("mnist", root=tmp_path, download=download).train) == 12
    assert {name: (archives / name).read_bytes() for name in FILES} == mnist_contents()


def test_only_what_is_missing_is_unpacked(tmp_path: Path, archives: Path):
    content = mnist_contents()[FILES[0]]
    changed = content[:-1] + bytes([content[-1] ^ 1])
    (archives / FILES[0]).write_bytes(changed)
    load("mnist", root=tmp_path)
    assert (archives / FILES[0]).read_bytes() == changed


def test_nothing_there_and_no_network_names_the_folder_and_the_files(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        load("mnist", root=tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "MNIST" / "raw") in message
    assert all(f"{name}.gz" in message for name in FILES)
    assert "no network in this test" in message and "by hand" in message and "load('digits')" in message
    assert everything(tmp_path) == {}


def test_not_asking_for_a_download_is_said(tmp_path: Path):
    with pytest.raises(DataError, match=r"is missing in .*, and download=False"):
        load("mnist", root=tmp_path, download=False)


def test_three_files_of_four_name_the_one_that_is_missing(tmp_path: Path, raw: Path):
    (raw / FILES[2]).unlink()
    with pytest.raises(DataError, match=rf"mnist: {FILES[2]}\.gz is missing in"):
        load("mnist", root=tmp_path)
    assert len(everything(tmp_path)) == 3, "the others stay"


def test_an_archive_that_was_cut_short_is_named_and_left_alone(tmp_path: Path, archives: Path):
    path = archives / f"{FILES[1]}.gz"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match=rf"{FILES[1]}\.gz is there, but its MD5 checksum is not [0-9a-f]{{32}}"):
        load("mnist", root=tmp_path)
    assert not (archives / FILES[1]).exists(), "nothing was unpacked from it"
    assert path.exists(), "the file is the user's"


def test_an_archive_that_cannot_be_unpacked_leaves_nothing_that_looks_whole(
    tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch
):
    path = archives / f"{FILES[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])  # its checksum is right, its content ends early
    resources = dict(datasets.MNIST.resources) | {path.name: hashlib.md5(path.read_bytes()).hexdigest()}
    monkeypatch.setattr(datasets.MNIST, "resources", list(resources.items()))
    with pytest.raises(DataError, match=rf"{FILES[0]}\.gz cannot be unpacked"):
        load("mnist", root=tmp_path)
    assert sorted(everything(archives)) == sorted(f"{name}.gz" for name in FILES)


def test_unpacking_that_is_interrupted_leaves_nothing_that_looks_whole(
    tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(source: io.BufferedIOBase, target: io.BufferedIOBase) -> None:
        target.write(source.read(100))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "copyfileobj", interrupted)
        load("mnist", root=tmp_path)
    assert sorted(everything(archives)) == sorted(f"{name}.gz" for name in FILES)
    assert len(load("mnist", root=tmp_path).train) == 12


class Served(io.BytesIO):
    """What a server answers; it may hang up in the middle."""

    def __init__(self, content: bytes, url: str, length: int) -> None:
        super().__init__(content)
        self.url, self.length = url, length


@pytest.fixture
def server(tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch):
    """Move the archives to a server. The returned dict says how many bytes of each it sends."""
    files = {path.name: path.read_bytes() for path in archives.iterdir()}
    shutil.rmtree(tmp_path / "MNIST")
    sent = {name: len(content) for name, content in files.items()}
    asked: list[str] = []

    def urlopen(request: urllib.request.Request) -> Served:
        name = request.full_url.rsplit("/", 1)[1]
        asked.append(name)
        return Served(files[name][: sent[name]], request.full_url, len(files[name]))

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(datasets.MNIST, "mirrors", ["https://mirror.invalid/"])
    sent["asked"] = asked
    return sent


def test_missing_archives_are_downloaded_once(tmp_path: Path, server: dict):
    assert len(load("mnist", root=tmp_path).train) == 12
    server["asked"].clear()
    load("mnist", root=tmp_path)
    assert server["asked"] == []


def test_a_download_that_ends_early_leaves_nothing_of_that_file_and_keeps_whole_ones(tmp_path: Path, server: dict):
    name, whole = f"{FILES[2]}.gz", server[f"{FILES[2]}.gz"]
    server[name] = 30
    with pytest.raises(DataError, match=rf"mnist: {name} is missing in .*the download failed"):
        load("mnist", root=tmp_path)
    left = everything(tmp_path / "MNIST" / "raw")
    assert sorted(left) == sorted([FILES[0], f"{FILES[0]}.gz", FILES[1], f"{FILES[1]}.gz"])
    server[name] = whole
    assert len(load("mnist", root=tmp_path).test) == 8


def test_a_killed_downloads_remains_are_not_taken_for_the_file(tmp_path: Path, server: dict):
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / f"{FILES[0]}.gz").write_bytes(b"\x1f\x8b half")
    assert len(load("mnist", root=tmp_path).train) == 12


def test_a_failed_download_touches_no_other_file_in_the_folder(tmp_path: Path, server: dict, monkeypatch):
    def urlopen(_request: object) -> None:
        (tmp_path / "written meanwhile").write_text("by someone else")
        raise urllib.error.URLError("refused")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(DataError):
        load("mnist", root=tmp_path)
    assert (tmp_path / "written meanwhile").exists()


IMAGES, LABELS = FILES[0], FILES[1]
good = mnist_contents()
BROKEN = {
    "cut short": (IMAGES, good[IMAGES][:-1], r"9,423 bytes, but its header announces 9,424 \(shape \(12, 28, 28\)\)"),
    "too long": (LABELS, good[LABELS] + b"\0", "has 21 bytes, but its header announces 20"),
    "empty": (IMAGES, b"", "has 0 bytes and begins with 0x; .*begins with 0x00000803"),
    "a header cut short": (IMAGES, good[IMAGES][:10], "has 10 bytes and begins with 0x00000803; .*at least 16"),
    "an HTML page": (IMAGES, b"<!DOCTYPE html><html></html>", "begins with 0x3c21444f; an IDX file of 3 dimension"),
    "still packed": (LABELS, gzip.compress(good[LABELS]), "begins with 0x1f8b08"),
    "labels for images": (IMAGES, good[LABELS], "begins with 0x00000801; .*begins with 0x00000803"),
    "images for labels": (LABELS, good[IMAGES], "begins with 0x00000803; .*begins with 0x00000801"),
    "another number type": (LABELS, struct.pack(">II", 0x0C01, 12) + bytes(48), "begins with 0x00000c01"),
    "a size of a terabyte": (IMAGES, struct.pack(">4I", 0x0803, 2**20, 2**10, 2**10), "announces 1,099,511,627,792"),
    "a size past 64 bits": (IMAGES, struct.pack(">4I", 0x0803, *[2**32 - 1] * 3), "announces 79,228,162,458,924"),
    "no sample": (LABELS, struct.pack(">II", 0x0801, 0), r"shape \(0,\)\). It is empty, cut short or damaged"),
    "no pixel": (IMAGES, struct.pack(">4I", 0x0803, 12, 0, 28), r"shape \(12, 0, 28\)"),
    "fewer labels": (LABELS, idx(np.zeros(11)), "holds 12 images but .* holds 11 labels"),
    "a label too large": (LABELS, idx(np.full(12, 10)), "holds the label 10; MNIST's run from 0 to 9"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_and_nothing_is_kept_of_it(
    tmp_path: Path, raw: Path, name: str, content: bytes, message: str
):
    (raw / name).write_bytes(content)
    before = everything(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        load("mnist", root=tmp_path)
    assert name in str(caught.value) and str(raw) in str(caught.value) and "elete" in str(caught.value)
    assert everything(tmp_path) == before
    (raw / name).write_bytes(good[name])
    assert len(load("mnist", root=tmp_path).train) == 12, "mending the file is enough"


def test_a_root_that_is_a_file_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"mnist.*file"):
        load("mnist", root=tmp_path / "file")


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, raw: Path):
    (raw / IMAGES).unlink()
    (raw / IMAGES).mkdir()
    with pytest.raises(DataError, match=IMAGES):
        load("mnist", root=tmp_path)


def cifar_contents() -> dict[str, bytes]:
    rng = np.random.default_rng(0)

    def batch() -> bytes:
        pixels = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
        return pickle.dumps({"data": pixels, "labels": rng.integers(0, 10, 4).tolist()})

    names = [file for file, _ in datasets.CIFAR10.train_list + datasets.CIFAR10.test_list]
    return {name: batch() for name in names} | {"batches.meta": pickle.dumps({"label_names": ["airplane", "car"]})}


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CIFAR-10's archive, placed by hand, whose checksums torchvision is told."""
    contents = cifar_contents()
    path = tmp_path / datasets.CIFAR10.filename
    with tarfile.open(path, "w:gz") as packed:
        for name, content in contents.items():
            info = tarfile.TarInfo(f"{datasets.CIFAR10.base_folder}/{name}")
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))

    def sums(listed: list) -> list:
        return [[name, hashlib.md5(contents[name]).hexdigest()] for name, _ in listed]

    monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setattr(datasets.CIFAR10, "train_list", sums(datasets.CIFAR10.train_list))
    monkeypatch.setattr(datasets.CIFAR10, "test_list", sums(datasets.CIFAR10.test_list))
    meta = {**datasets.CIFAR10.meta, "md5": hashlib.md5(contents["batches.meta"]).hexdigest()}
    monkeypatch.setattr(datasets.CIFAR10, "meta", meta)
    return path


@pytest.mark.parametrize("download", [True, False])
def test_cifar_is_read_from_an_archive_placed_by_hand(tmp_path: Path, cifar: Path, download: bool):
    found = load("cifar10", root=tmp_path, download=download)
    assert (found.train.images.shape, found.test.images.shape) == ((20, 3, 32, 32), (4, 3, 32, 32))
    first = pickle.loads(cifar_contents()["data_batch_1"])
    pixels = (found.pixels(found.train.images[:4]) * 255).round().byte()
    assert np.array_equal(pixels.flatten(1).numpy(), first["data"]), "channels first, rows then columns"
    assert found.train.labels[:4].tolist() == first["labels"]
    assert found.classes == ("airplane", "car")


def test_unpacked_cifar_needs_no_archive(tmp_path: Path, cifar: Path):
    load("cifar10", root=tmp_path)
    cifar.unlink()
    assert len(load("cifar10", root=tmp_path, download=False).train) == 20


def test_cifar_that_is_missing_names_the_folder_and_the_archive(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        load("cifar10", root=tmp_path)
    assert str(tmp_path) in str(caught.value) and "cifar-10-python.tar.gz is missing" in str(caught.value)


class Trap:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["data_batch_3", "test_batch", "batches.meta"])
def test_a_tampered_pickle_is_refused_before_it_runs(tmp_path: Path, cifar: Path, name: str):
    load("cifar10", root=tmp_path)
    cifar.unlink()
    sprung = tmp_path / "sprung"
    tampered = pickle.dumps(Trap(sprung))
    (tmp_path / datasets.CIFAR10.base_folder / name).write_bytes(tampered)
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz is missing"):
        load("cifar10", root=tmp_path)
    assert not sprung.exists()
    pickle.loads(tampered)
    assert sprung.exists(), "the trap works"


def test_a_tampered_archive_is_refused_before_it_is_unpacked(tmp_path: Path, cifar: Path):
    cifar.write_bytes(cifar.read_bytes() + b"\0")
    with pytest.raises(DataError, match="is there, but its MD5 checksum is not"):
        load("cifar10", root=tmp_path)
    assert not (tmp_path / datasets.CIFAR10.base_folder).exists()


def test_a_tampered_file_is_replaced_where_the_archive_is_at_hand(tmp_path: Path, cifar: Path):
    load("cifar10", root=tmp_path)
    (tmp_path / datasets.CIFAR10.base_folder / "data_batch_2").write_bytes(b"half")
    assert len(load("cifar10", root=tmp_path).train) == 20


def test_an_archive_without_the_right_files_is_an_error(tmp_path: Path, cifar: Path, monkeypatch):
    wrong = [[name, "0" * 32] for name, _ in datasets.CIFAR10.test_list]
    monkeypatch.setattr(datasets.CIFAR10, "test_list", wrong)
    with pytest.raises(DataError, match="not what their checksums say"):
        load("cifar10", root=tmp_path)


def test_the_time_limit_of_connections_is_put_back():
    import socket

    before = socket.getdefaulttimeout()
    with downloads._patience():
        assert socket.getdefaulttimeout() == downloads._PATIENCE_S
    assert socket.getdefaulttimeout() == before


def test_a_data_set_written_as_mnist_comes_back(tmp_path):
    digits = load("digits", samples=40)
    downloads.write_mnist(tmp_path, digits)
    back = load("mnist", root=tmp_path, download=False)
    assert torch.equal(back.train.labels, digits.train.labels)
    assert torch.allclose(back.train.images, digits.train.images, atol=1 / 255 / MNIST_STD)
