"""MNIST and CIFAR-10: downloaded once through torchvision, with checksums, or placed by hand.

A file counts only when it is whole: archives and pickled batches by the checksums that torchvision knows,
IDX files by their headers. What fails is answered with the folder, the file and what to do.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import shutil
import socket
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from torchvision import datasets
from torchvision.datasets.utils import check_integrity, download_url

from helpers.data import DataError, Dataset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = tuple[NDArray[np.uint8], NDArray[np.int64]]

_IDX_MAGIC = {3: 0x0803, 1: 0x0801}
"""First four bytes of an IDX file of unsigned bytes, by its number of dimensions.

Source: Y. LeCun's description of the IDX format on the MNIST page: two zero bytes, the type, the dimensions.
"""
_MNIST_CLASSES = 10
_PATIENCE_S = 30.0
"""A server that is silent for so long is taken for unreachable; by itself an offline machine may wait for ever."""


def read(name: Literal["mnist", "cifar10"], root: Path, *, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    """Return pixels uint8 ``[N, C, H, W]`` and labels int64 ``[N]`` of both splits, and the classes.

    Raises:
        DataError: If files are missing and could not be downloaded, or are broken.
    """
    try:
        return _mnist(root, download) if name == "mnist" else _cifar10(root, download)
    except OSError as error:
        raise DataError(
            f"{name} cannot be read from or written to {root} ({type(error).__name__}: {error}). "
            "Look at the folder's permissions and free space, or give another one as root."
        ) from error


@dataclass(frozen=True, kw_only=True)
class _Archive:
    """A file that can be downloaded, and where it lies or may be put by hand."""

    name: str
    path: Path
    md5: str
    urls: tuple[str, ...]
    needed: tuple[str, ...]
    """Names of all archives of the data set, this one among them."""

    def obtain(self, download: bool) -> Path:
        """Return the path of the whole archive, downloaded if need be.

        Raises:
            DataError: If it is not there, or not what its checksum says, and could not be downloaded.
        """
        if check_integrity(str(self.path), self.md5):
            return self.path
        there = self.path.is_file()
        why = self._download() if download else "download=False"
        if why is None:
            return self.path
        if not there:
            self.path.unlink(missing_ok=True)  # what a broken connection has left
        broken = f"is there, but its MD5 checksum is not {self.md5} (cut short, or another file)"
        raise DataError(
            f"{self.name}: {self.path.name} {broken if there else 'is missing'} in {self.path.parent}, and {why}. "
            f"The data set needs {', '.join(self.needed)} there: put what is missing there by hand, or use "
            "load('digits'), which needs no network."
        )

    def _download(self) -> str | None:
        """Try each address; return None on success, else why the last attempt failed."""
        why = None
        for url in self.urls:
            try:
                with _patience():
                    download_url(url, str(self.path.parent), self.path.name, self.md5)
            except (OSError, RuntimeError, ValueError, http.client.HTTPException) as error:
                why = f"the download failed ({type(error).__name__}: {error})"
            else:
                return None
        return why


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Limit how long a silent connection is waited for; torchvision sets no limit of its own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _mnist(root: Path, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    raw = root / "MNIST" / "raw"
    needed = tuple(filename for filename, _ in datasets.MNIST.resources)
    for filename, md5 in datasets.MNIST.resources:
        target = raw / filename.removesuffix(".gz")
        if not target.is_file():
            urls = tuple(f"{mirror}{filename}" for mirror in datasets.MNIST.mirrors)
            archive = _Archive(name="mnist", path=raw / filename, md5=md5, urls=urls, needed=needed)
            _unzip(archive.obtain(download), target)
    train, test = (
        _idx_pair(raw / f"{split}-images-idx3-ubyte", raw / f"{split}-labels-idx1-ubyte") for split in ("train", "t10k")
    )
    return train, test, tuple(str(digit) for digit in range(_MNIST_CLASSES))


def _unzip(archive: Path, target: Path) -> None:
    """Unpack under another name first, so that an interruption leaves nothing that looks whole."""
    unfinished = target.with_name(f"{target.name}.unfinished")
    try:
        with gzip.open(archive) as packed, unfinished.open("wb") as file:
            shutil.copyfileobj(packed, file)
        unfinished.replace(target)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}). Delete the file and load again.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _idx_pair(images: Path, labels: Path) -> Pixels:
    pixels, targets = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(targets):
        raise DataError(
            f"{images.name} holds {len(pixels)} images but {labels.name} holds {len(targets)} labels, in "
            f"{images.parent}. They do not belong together: delete both and load again."
        )
    if targets.max() >= _MNIST_CLASSES:
        raise DataError(
            f"{labels} holds the label {targets.max()}; MNIST's run from 0 to {_MNIST_CLASSES - 1}. "
            "Delete the file and load again."
        )
    return pixels[:, None], targets.astype(np.int64)


def read_idx(path: Path, dimensions: Literal[1, 3]) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes.

    Raises:
        DataError: If the magic number is not that of such a file, or the file is shorter or longer than its
            header says, or holds nothing.
    """
    content = np.fromfile(path, np.uint8)
    header = 4 + 4 * dimensions
    start = content[:4].tobytes()
    if len(content) < header or int.from_bytes(start, "big") != _IDX_MAGIC[dimensions]:
        raise DataError(
            f"{path} has {len(content):,} bytes and begins with 0x{start.hex()}; an IDX file of {dimensions} "
            f"dimension(s) has at least {header} and begins with 0x{_IDX_MAGIC[dimensions]:08x}. "
            "Delete the file and load again."
        )
    shape = tuple(int.from_bytes(content[at : at + 4].tobytes(), "big") for at in range(4, header, 4))
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected or 0 in shape:
        raise DataError(
            f"{path} has {len(content):,} bytes, but its header announces {expected:,} (shape {shape}). "
            "It is empty, cut short or damaged: delete the file and load again."
        )
    return content[header:].reshape(shape)


def write_mnist(root: Path, dataset: Dataset) -> None:
    """Write a grey data set as MNIST's four files, for tools that read only those.

    Args:
        root: Gets ``MNIST/raw`` below it, where torchvision looks for them.
        dataset: Images of one channel.
    """
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for prefix, split in (("train", dataset.train), ("t10k", dataset.test)):
        pixels = dataset.pixels(split.images)[:, 0].mul(255).round().byte().numpy()
        write_idx(raw / f"{prefix}-images-idx3-ubyte", pixels)
        write_idx(raw / f"{prefix}-labels-idx1-ubyte", split.labels.byte().numpy())


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """Write unsigned bytes of 1 or 3 dimensions as an IDX file, which :func:`read_idx` reads."""
    header = [_IDX_MAGIC[array.ndim], *array.shape]
    path.write_bytes(b"".join(number.to_bytes(4, "big") for number in header) + array.tobytes())


def _cifar10(root: Path, download: bool) -> tuple[Pixels, Pixels, tuple[str, ...]]:
    kind = datasets.CIFAR10
    wanted = [*kind.train_list, *kind.test_list, (kind.meta["filename"], kind.meta["md5"])]
    if not _all_whole(root, wanted):
        name = kind.filename
        archive = _Archive(name="cifar10", path=root / name, md5=kind.tgz_md5, urls=(kind.url,), needed=(name,))
        with tarfile.open(archive.obtain(download)) as packed:
            packed.extractall(root, filter="data")
    try:  # torchvision compares each file's checksum again before it unpickles it
        train, test = (kind(str(root), train=train, download=False) for train in (True, False))
    except RuntimeError as error:
        raise DataError(
            f"cifar10: the files in {root / kind.base_folder} are not what their checksums say ({error}). "
            "Delete that folder and load again."
        ) from error
    return _channels_first(train), _channels_first(test), tuple(train.classes)


def _all_whole(root: Path, wanted: list[tuple[str, str]]) -> bool:
    folder = root / datasets.CIFAR10.base_folder
    return all(check_integrity(str(folder / file), md5) for file, md5 in wanted)


def _channels_first(data: datasets.CIFAR10) -> Pixels:
    return np.ascontiguousarray(data.data.transpose(0, 3, 1, 2)), np.asarray(data.targets, np.int64)
