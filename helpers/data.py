"""Data sets in memory, and batches cut from them.

``load("digits")`` needs no network: scikit-learn carries the images. Everything that iterates does so
in an order that depends on ``(seed, epoch)`` alone and can start at any sample, so that a resumed run
sees exactly the samples that the interrupted one had not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch.utils.data import TensorDataset

from helpers import seeding
from helpers.errors import CourseError
from helpers.machine import scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

Name = Literal["digits", "shapes", "mnist", "cifar10"]

MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
"""Of MNIST's training pixels scaled to 0..1; ``digits`` is normalised with the same two numbers."""

_DIGITS_TRAIN = 1437
"""Four fifths of scikit-learn's 1,797 digits."""

SHAPES = ("disc", "square", "triangle", "plus", "ring", "diamond")
"""The classes of ``shapes``."""


_PORTION = 500
"""Images that are worked on at once where a result of floats would be larger than the data set."""


class DataError(CourseError):
    """Data is missing, broken, or was asked for in a way that cannot work."""


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels.

    Attributes:
        images: float32 ``[N, C, H, W]``, normalised.
        labels: int64 ``[N]``, from 0.
    """

    images: torch.Tensor
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"there are {len(self.images)} images and {len(self.labels)} labels; give one label each.")

    def __len__(self) -> int:
        return len(self.labels)

    def first(self, samples: int) -> Split:
        """Return the first samples, as views."""
        return Split(self.images[:samples], self.labels[:samples])

    def to(self, device: torch.device | str) -> Split:
        """Return the split with its tensors on a device."""
        return Split(self.images.to(device), self.labels.to(device))

    def dataset(self) -> TensorDataset:
        """Return the split as a dataset of single items, for an ordinary ``DataLoader``."""
        return TensorDataset(self.images, self.labels)

    def batches(self, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False) -> Batches:
        """Return an iterable of batches; see :class:`Batches`."""
        return Batches(self, batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training split, a test split, and what is known about them."""

    name: Name
    train: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    """Per channel, of the pixels scaled to 0..1, before the normalisation."""
    std: tuple[float, ...]

    def __repr__(self) -> str:
        shape = "×".join(str(size) for size in self.train.images.shape[1:])
        return f"{self.name}: {len(self.train):,} + {len(self.test):,} images of {shape}, {len(self.classes)} classes"

    def pixels(self, images: torch.Tensor) -> torch.Tensor:
        """Return normalised images ``[N, C, H, W]`` as pixels in 0..1, for a picture."""
        mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.mean, self.std))
        return (images * std + mean).clamp(0, 1)


class Batches:
    """Batches cut from tensors: no worker, no collation, no Python per item.

    Iterating yields ``(images [B, C, H, W], labels [B])``. The order depends on ``(seed, epoch)`` alone.

    Args:
        split: Where the samples come from.
        batch_size: Samples per batch; the last batch may be shorter.
        shuffle: Whether to permute the samples anew in every epoch.
        seed: Of the permutation.
        drop_last: Whether to leave a short last batch out.

    Raises:
        DataError: If the batch size is not positive.
    """

    def __init__(
        self, split: Split, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False
    ) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise DataError(f"batch_size is {batch_size!r}; expected a whole number from 1, such as 64.")
        self.split = split
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.offset = 0
        """Samples of the epoch that the next pass leaves out (:meth:`start_at`)."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, which with the seed decides the order."""
        self.epoch = epoch

    def start_at(self, samples: int) -> None:
        """Make the next pass begin after so many samples of the epoch; later passes begin at 0 again.

        Raises:
            DataError: If the offset lies outside the data, or inside a batch.
        """
        total = len(self.split)
        if samples != total and (not 0 <= samples < total or samples % self.batch_size):
            raise DataError(
                f"start_at({samples}): expected a multiple of the batch size {self.batch_size} below {total}, "
                f"or {total} for the epoch's end."
            )
        self.offset = samples

    def order(self) -> torch.Tensor:
        """Return the epoch's order as indices, int64 ``[N]``."""
        if not self.shuffle:
            return torch.arange(len(self.split))
        return torch.randperm(len(self.split), generator=seeding.generator(self.seed, self.epoch))

    def __len__(self) -> int:
        whole, rest = divmod(len(self.split), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        start, self.offset = self.offset, 0
        end = min(len(self) * self.batch_size, len(self.split))
        return self._shuffled(start, end, self.order()) if self.shuffle else self._in_order(start, end)

    def _in_order(self, start: int, end: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        images, labels = self.split.images, self.split.labels
        for at in range(start, end, self.batch_size):
            yield images[at : at + self.batch_size], labels[at : at + self.batch_size]

    def _shuffled(self, start: int, end: int, order: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        images, labels = self.split.images, self.split.labels
        order = order.to(images.device)
        for at in range(start, end, self.batch_size):
            chosen = order[at : at + self.batch_size]  # index_select takes a third of the time of images[chosen]
            yield images.index_select(0, chosen), labels.index_select(0, chosen)


def load(
    name: Name = "digits",
    *,
    root: Path | str | None = None,
    download: bool = True,
    seed: int = 0,
    samples: int | None = None,
) -> Dataset:
    """Return a data set, in memory, normalised.

    Args:
        name: ``digits`` (embedded, 1×28×28), ``shapes`` (made from the seed, 3×32×32), ``mnist`` (1×28×28) or
            ``cifar10`` (3×32×32). The last two are downloaded once, with progress and checksums.
        root: Folder for downloads; the course's scratch folder by default.
        download: Whether to download what is missing.
        seed: Chooses the images of ``shapes`` and how ``digits`` is split.
        samples: Keep (for ``shapes``: make) so many training samples, and a quarter as many test samples where
            there are as many.

    Raises:
        DataError: If the name is unknown, or files are missing and cannot be downloaded, or are broken. The
            message names the folder and the files.
    """
    if name not in get_args(Name):
        raise DataError(f"there is no data set {name!r}; expected one of {', '.join(get_args(Name))}.")
    if samples is not None and (not isinstance(samples, int) or samples < 4):
        raise DataError(
            f"samples={samples!r}: expected a whole number from 4, since the test split gets a quarter of them."
        )
    if name == "digits":
        made = _digits(seed)
    elif name == "shapes":
        made = _shapes(seed, samples or 2_000)
    else:
        from helpers import downloads

        folder = Path(root) if root is not None else scratch("data")
        made = _from_pixels(name, *downloads.read(name, folder, download=download))
    return made if samples is None else _cut(made, samples)


def _cut(made: Dataset, samples: int) -> Dataset:
    """Keep copies of the first samples, so that the memory of the others can be freed."""
    if samples > len(made.train):
        raise DataError(f"samples={samples}: {made.name} has {len(made.train)} training samples; ask for fewer.")
    train, test = made.train.first(samples), made.test.first(samples // 4)
    copies = (Split(split.images.clone(), split.labels.clone()) for split in (train, test))
    return dataclasses.replace(made, train=next(copies), test=next(copies))


def _digits(seed: int) -> Dataset:
    """Return scikit-learn's handwritten digits in MNIST's shape: 20×20 ink in a 28×28 frame.

    Source:
        E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI repository, 1998.
    """
    from sklearn.datasets import load_digits

    ink, labels = load_digits(return_X_y=True)
    small = torch.from_numpy(ink.astype(np.float32)).view(-1, 1, 8, 8) / 16
    large = torch.nn.functional.interpolate(small, size=(20, 20), mode="bilinear", align_corners=False)
    images = torch.nn.functional.pad(large, (4, 4, 4, 4)).sub_(MNIST_MEAN).div_(MNIST_STD)
    order = torch.randperm(len(images), generator=seeding.generator(seed))
    train, test = order[:_DIGITS_TRAIN], order[_DIGITS_TRAIN:]
    targets = torch.from_numpy(labels).long()
    return Dataset(
        "digits",
        Split(images[train], targets[train]),
        Split(images[test], targets[test]),
        tuple(str(digit) for digit in range(10)),
        (MNIST_MEAN,),
        (MNIST_STD,),
    )


def _shapes(seed: int, samples: int) -> Dataset:
    """Return coloured outlines on noise, made from the seed."""
    rng = np.random.default_rng(seeding.derive(seed))
    train, test = _draw_many_shapes(rng, samples), _draw_many_shapes(rng, max(samples // 4, 1))
    return _from_pixels("shapes", train, test, SHAPES)


def _draw_many_shapes(rng: np.random.Generator, samples: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw in portions: while an image is made it takes forty times the memory of its pixels."""
    portions = [_draw_shapes(rng, min(_PORTION, samples - at)) for at in range(0, samples, _PORTION)]
    return np.concatenate([pixels for pixels, _ in portions]), np.concatenate([labels for _, labels in portions])


def _draw_shapes(rng: np.random.Generator, samples: int, size: int = 32) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 ``[N, 3, size, size]`` and labels ``[N]``."""
    labels = rng.integers(0, len(SHAPES), samples)
    centre = rng.uniform(0.35, 0.65, (2, samples, 1, 1)) * size
    radius = rng.uniform(0.2, 0.32, (samples, 1, 1)) * size
    rows, columns = np.mgrid[:size, :size]
    dy, dx = (rows - centre[0]) / radius, (columns - centre[1]) / radius
    inside = np.zeros((samples, size, size), dtype=bool)
    for label, test in enumerate(_INSIDE):
        chosen = labels == label
        inside[chosen] = test(dx[chosen], dy[chosen])
    ink, paper = rng.uniform(0.55, 1, (samples, 3, 1, 1)), rng.uniform(0, 0.45, (samples, 3, 1, 1))
    pixels = np.where(inside[:, None], ink, paper) + rng.normal(0, 0.05, (samples, 3, size, size))
    return (pixels.clip(0, 1) * 255).astype(np.uint8), labels


_Inside = Callable[["NDArray[np.float64]", "NDArray[np.float64]"], "NDArray[np.bool_]"]
_INSIDE: tuple[_Inside, ...] = (
    lambda x, y: x**2 + y**2 < 1,
    lambda x, y: np.maximum(abs(x), abs(y)) < 0.85,
    lambda x, y: (y < 0.8) & (y > 2 * abs(x) - 1),
    lambda x, y: (np.minimum(abs(x), abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 1),
    lambda x, y: (x**2 + y**2 < 1) & (x**2 + y**2 > 0.36),
    lambda x, y: abs(x) + abs(y) < 1,
)
"""Which points lie inside each of :data:`SHAPES`, for coordinates relative to its centre and radius."""


def _from_pixels(
    name: Name,
    train: tuple[NDArray[np.uint8], NDArray[np.int64]],
    test: tuple[NDArray[np.uint8], NDArray[np.int64]],
    classes: tuple[str, ...],
) -> Dataset:
    """Normalise pixels uint8 ``[N, C, H, W]`` by the training split's mean and deviation per channel."""
    mean, std = ((MNIST_MEAN,), (MNIST_STD,)) if name == "mnist" else _channel_statistics(train[0])
    return Dataset(name, _normalised(*train, mean, std), _normalised(*test, mean, std), classes, mean, std)


def _channel_statistics(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation per channel in 0..1, from whole numbers summed in portions."""
    total, squares = np.zeros(pixels.shape[1], np.int64), np.zeros(pixels.shape[1], np.int64)
    for at in range(0, len(pixels), _PORTION):
        portion = pixels[at : at + _PORTION].astype(np.int64)
        total += portion.sum((0, 2, 3))
        squares += (portion**2).sum((0, 2, 3))
    count = pixels[:, 0].size
    means = total / count
    deviations = np.sqrt(np.maximum(squares / count - means**2, 0))
    return tuple((means / 255).tolist()), tuple(max(value, 1e-6) for value in (deviations / 255).tolist())


def _normalised(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64], mean: tuple[float, ...], std: tuple[float, ...]
) -> Split:
    """Scale, shift and divide in place, so that no second copy of the floats is ever held."""
    images = torch.from_numpy(pixels).float().div_(255)
    shift, scale = (torch.tensor(values).view(1, -1, 1, 1) for values in (mean, std))
    return Split(images.sub_(shift).div_(scale), torch.from_numpy(labels).long())
