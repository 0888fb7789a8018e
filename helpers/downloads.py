"""MNIST and CIFAR-10 through torchvision: downloaded once with checksums, or placed by hand.

torchvision does the work. What this module adds are the answers a learner needs when it fails: which
folder, which files, and which of them is broken.
"""

from __future__ import annotations

import contextlib
import gzip
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from torchvision import datasets

from helpers.data import DataError, Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = tuple[NDArray[np.uint8], NDArray[np.int64]]

_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_IDX_MAGIC = {3: 0x0803, 1: 0x0801}
"""First four bytes of an IDX file of unsigned bytes, by its number of dimensions.

Source: Y. LeCun's description of the IDX format on the MNIST page: two zero bytes, the type, the dimensions.
"""


def read(name: Literal["mnist", "cifar10"], root: Path, *, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    """Return pixels uint8 ``[N, C, H, W]`` and labels int64 ``[N]`` of both splits, and the classes.

    Raises:
        DataError: If files are missing and could not be downloaded, or are broken.
    """
    return _mnist(root, download) if name == "mnist" else _cifar10(root, download)


def _mnist(root: Path, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    raw = root / "MNIST" / "raw"
    if not all((raw / file).is_file() for file in _MNIST_FILES):
        with _explained("mnist", raw, [f"{file}.gz" for file in _MNIST_FILES], download, also=_MNIST_FILES):
            datasets.MNIST(str(root), download=download)
    train, test = (
        _idx_pair(raw / f"{split}-images-idx3-ubyte", raw / f"{split}-labels-idx1-ubyte") for split in ("train", "t10k")
    )
    return train, test, tuple(str(digit) for digit in range(10))


def _idx_pair(images: Path, labels: Path) -> Pixels:
    pixels, targets = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(targets):
        raise DataError(
            f"{images.name} holds {len(pixels)} images but {labels.name} holds {len(targets)} labels, in "
            f"{images.parent}. They do not belong together: delete both and load again."
        )
    return pixels[:, None], targets.astype(np.int64)


def read_idx(path: Path, dimensions: Literal[1, 3]) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes.

    Raises:
        DataError: If the magic number is not that of such a file, or the file is shorter or longer than its
            header says.
    """
    content = np.fromfile(path, np.uint8)
    header = 4 + 4 * dimensions
    start = content[:4].tobytes()
    if len(content) < header or int.from_bytes(start, "big") != _IDX_MAGIC[dimensions]:
        raise DataError(
            f"{path} begins with 0x{start.hex() or '(nothing)'}; an IDX file of {dimensions} dimension(s) "
            f"begins with 0x{_IDX_MAGIC[dimensions]:08x}. Delete the file and load again."
        )
    shape = tuple(int.from_bytes(content[at : at + 4].tobytes(), "big") for at in range(4, header, 4))
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise DataError(
            f"{path} has {len(content):,} bytes, but its header announces {expected:,} (shape {shape}). "
            "It was cut short or damaged: delete the file and load again."
        )
    return content[header:].reshape(shape)


def write_mnist(root: Path, dataset: Dataset) -> None:
    """Write a grey data set as MNIST's four files, for tools that read only those.

    Args:
        root: Gets ``MNIST/raw`` below it, as torchvision expects it.
        dataset: Images of one channel.
    """
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for prefix, split in (("train", dataset.train), ("t10k", dataset.test)):
        pixels = dataset.pixels(split.images)[:, 0].mul(255).round().byte().numpy()
        _write_idx(raw / f"{prefix}-images-idx3-ubyte", pixels)
        _write_idx(raw / f"{prefix}-labels-idx1-ubyte", split.labels.byte().numpy())


def _write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    header = [_IDX_MAGIC[array.ndim], *array.shape]
    path.write_bytes(b"".join(number.to_bytes(4, "big") for number in header) + array.tobytes())


def _cifar10(root: Path, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    base = datasets.CIFAR10.base_folder
    files = [file for file, _ in datasets.CIFAR10.train_list + datasets.CIFAR10.test_list]
    with _explained("cifar10", root, [datasets.CIFAR10.filename], download, also=[f"{base}/{file}" for file in files]):
        train, test = (datasets.CIFAR10(str(root), train=train, download=download) for train in (True, False))
    return _channels_first(train), _channels_first(test), tuple(train.classes)


def _channels_first(data: datasets.CIFAR10) -> Pixels:
    return np.ascontiguousarray(data.data.transpose(0, 3, 1, 2)), np.asarray(data.targets, np.int64)


@contextlib.contextmanager
def _explained(
    name: str, folder: Path, archives: list[str], download: bool, *, also: list[str] | tuple[str, ...]
) -> Iterator[None]:
    """Turn what torchvision raises into one answer; remove files that the attempt left unfinished."""
    before = _files(folder)
    try:
        yield
    except (OSError, RuntimeError, ValueError, EOFError, gzip.BadGzipFile, pickle.UnpicklingError) as error:
        for path in _files(folder) - before:
            path.unlink()
        broken = [str(folder / file) for file in [*archives, *also] if (folder / file) in before]
        seen = f"These files are there, but are not what their checksums say: {', '.join(broken)}. " if broken else ""
        why = "the download failed" if download else "download=False"
        raise DataError(
            f"{name} is not complete in {folder}, and {why} ({type(error).__name__}: {error}). {seen}"
            f"Put {', '.join(archives)} there by hand, or use load('digits'), which needs no network."
        ) from error


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()} if folder.is_dir() else set()
