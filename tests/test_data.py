"""Data sets and batches: the same for a seed, every sample once, exact to resume, no second copy in memory."""

import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import data
from helpers.data import Batches, DataError, Split, load


def numbered(samples: int) -> Split:
    """A split whose images hold their own number, as their labels do."""
    numbers = torch.arange(samples)
    return Split(numbers.float().view(-1, 1, 1, 1), numbers)


def seen(batches: Batches) -> list[int]:
    return [number for _, labels in batches for number in labels.tolist()]


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return load("digits")


def test_digits_have_the_shape_and_size_that_the_course_tells_of(digits: data.Dataset):
    assert digits.train.images.shape == (1437, 1, 28, 28)
    assert digits.test.images.shape == (360, 1, 28, 28)
    assert (digits.train.images.dtype, digits.train.labels.dtype) == (torch.float32, torch.int64)
    assert repr(digits) == "digits: 1,437 + 360 images of 1×28×28, 10 classes"


def test_digits_are_normalised_as_mnist_is(digits: data.Dataset):
    assert digits.train.images.min() == pytest.approx(-data.MNIST_MEAN / data.MNIST_STD)
    pixels = digits.pixels(digits.train.images)
    assert (pixels.min(), pixels.max()) == (0, 1)
    assert pixels[:, :, :4].sum() == 0, "the frame around the ink is empty"


def test_digits_are_split_without_overlap(digits: data.Dataset):
    rows = torch.cat([digits.train.images, digits.test.images]).flatten(1)
    assert len(rows.unique(dim=0)) == len(rows)


def test_digits_hold_every_class_in_both_splits(digits: data.Dataset):
    for split in (digits.train, digits.test):
        assert split.labels.bincount(minlength=10).min() > 20


@pytest.mark.parametrize("name", ["digits", "shapes"])
def test_a_set_depends_on_its_seed_alone(name: data.Name):
    one, again, other = (load(name, seed=seed, samples=64) for seed in (1, 1, 2))
    assert torch.equal(one.train.images, again.train.images)
    assert torch.equal(one.test.labels, again.test.labels)
    assert not torch.equal(one.train.images, other.train.images)


def test_loading_leaves_the_global_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    load("shapes", samples=8)
    load("digits", samples=8)
    assert torch.equal(torch.rand(3), expected)


def test_shapes_are_colour_images_normalised_per_channel():
    shapes = load("shapes", samples=600)
    images = shapes.train.images
    assert images.shape == (600, 3, 32, 32)
    assert len(shapes.test) == 150
    assert images.mean((0, 2, 3)).abs().max() < 1e-3
    assert (images.std((0, 2, 3)) - 1).abs().max() < 1e-2


def test_shapes_can_be_told_apart():
    """Each class fills a different share of its bounding box, so the label must agree with the picture."""
    shapes = load("shapes", samples=600)
    pixels = shapes.pixels(shapes.train.images).mean(1)
    centre = pixels[:, 14:18, 14:18].mean((1, 2))
    ring, disc = (shapes.train.labels == data.SHAPES.index(name) for name in ("ring", "disc"))
    assert centre[disc].mean() - centre[ring].mean() > 0.2, "a ring is hollow"


def test_statistics_taken_in_portions_equal_those_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data, "_PORTION", 7)
    pixels = torch.randint(0, 256, (30, 3, 5, 5), generator=torch.Generator().manual_seed(0), dtype=torch.uint8).numpy()
    means, deviations = data._channel_statistics(pixels)
    assert means == pytest.approx((pixels.mean((0, 2, 3)) / 255).tolist())
    assert deviations == pytest.approx((pixels.std((0, 2, 3)) / 255).tolist())


def test_a_flat_image_does_not_divide_by_zero():
    flat = torch.full((4, 3, 2, 2), 7, dtype=torch.uint8).numpy()
    assert min(data._channel_statistics(flat)[1]) > 0


def test_fewer_samples_are_the_first_ones_and_own_their_memory(digits: data.Dataset):
    few = load("digits", samples=8)
    assert torch.equal(few.train.images, digits.train.images[:8])
    assert (len(few.train), len(few.test)) == (8, 2)
    assert few.train.images.untyped_storage().nbytes() == few.train.images.nbytes


REFUSED = {
    "an unknown name": ({"name": "cats"}, "no data set 'cats'; expected one of digits, shapes, mnist, cifar10"),
    "too few": ({"samples": 3}, "samples=3: expected a whole number from 4"),
    "none": ({"samples": 0}, "samples=0"),
    "a fraction": ({"samples": 8.0}, "samples=8.0"),
    "more than there are": ({"samples": 1438}, "samples=1438: digits has 1437 training samples; ask for fewer"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_loaded_is_refused_by_value(arguments: dict, message: str):
    with pytest.raises(DataError, match=message):
        load(**arguments)


def test_a_split_has_one_label_per_image():
    with pytest.raises(DataError, match="3 images and 2 labels"):
        Split(torch.zeros(3, 1), torch.zeros(2))


def test_a_split_serves_an_ordinary_loader():
    loader = torch.utils.data.DataLoader(numbered(10).dataset(), batch_size=4)
    assert [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


pass_settings = {
    "samples": st.integers(0, 40),
    "batch_size": st.integers(1, 12),
    "shuffle": st.booleans(),
    "drop_last": st.booleans(),
    "seed": st.integers(0, 2**40),
    "epoch": st.integers(0, 1000),
}


@settings(deadline=None)  # times mean nothing on a busy machine
@given(**pass_settings)
def test_every_sample_comes_once(samples, batch_size, shuffle, drop_last, seed, epoch):
    batches = numbered(samples).batches(batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
    batches.set_epoch(epoch)
    sizes = [len(labels) for _, labels in batches]
    assert len(sizes) == len(batches)
    assert all(size == batch_size for size in sizes[:-1])
    numbers = seen(batches)
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) == (samples - samples % batch_size if drop_last else samples)


@settings(deadline=None)  # times mean nothing on a busy machine
@given(**pass_settings, steps=st.integers(0, 40))
def test_a_pass_that_starts_later_is_the_tail_of_the_whole_one(
    samples, batch_size, shuffle, drop_last, seed, epoch, steps
):
    batches = numbered(samples).batches(batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
    batches.set_epoch(epoch)
    whole = seen(batches)
    offset = min(steps * batch_size, samples)  # the end of the epoch need not be a multiple
    batches.start_at(offset)
    assert seen(batches) == whole[offset:]
    assert seen(batches) == whole, "the next pass begins at the beginning"


@settings(deadline=None)  # times mean nothing on a busy machine
@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_the_order_depends_on_seed_and_epoch_alone(seed: int, epoch: int):
    first, second = (numbered(50).batches(8, shuffle=True, seed=seed) for _ in range(2))
    seen(first)  # earlier passes and the global generator must not matter
    torch.rand(1)
    for batches in (first, second):
        batches.set_epoch(epoch)
    assert seen(first) == seen(second) == first.order().tolist()


def test_orders_of_other_epochs_and_seeds_differ():
    batches = [numbered(50).batches(50, shuffle=True, seed=seed) for seed in (0, 0, 1)]
    batches[1].set_epoch(1)
    orders = [tuple(seen(one)) for one in batches]
    assert len(set(orders)) == 3


def test_images_and_labels_stay_together():
    for images, labels in numbered(50).batches(7, shuffle=True, seed=3):
        assert torch.equal(images.flatten().long(), labels)


def test_an_iterator_keeps_the_order_of_the_epoch_it_began_in():
    batches = numbered(20).batches(4, shuffle=True)
    iterator, expected = iter(batches), batches.order().tolist()
    batches.set_epoch(1)
    assert [number for _, labels in iterator for number in labels.tolist()] == expected


BAD_OFFSETS = [(-4, "-4"), (3, "3"), (12, "12"), (11, "11")]


@pytest.mark.parametrize(("offset", "shown"), BAD_OFFSETS)
def test_an_offset_inside_a_batch_or_outside_the_data_is_refused(offset: int, shown: str):
    with pytest.raises(DataError, match=rf"start_at\({shown}\): expected a multiple of the batch size 4 below 10"):
        numbered(10).batches(4).start_at(offset)


@pytest.mark.parametrize("size", [0, -1, 2.0, None, "8"])
def test_a_batch_size_that_is_no_count_is_refused(size: object):
    with pytest.raises(DataError, match=f"batch_size is {size!r}; expected a whole number from 1"):
        numbered(10).batches(size)


def test_batches_in_order_are_views():
    split = numbered(10)
    for images, _ in split.batches(4):
        assert images.untyped_storage().data_ptr() == split.images.untyped_storage().data_ptr()


def test_a_shuffled_pass_holds_one_batch_at_a_time():
    split = Split(torch.zeros(20_000, 1, 28, 28), torch.zeros(20_000, dtype=torch.int64))
    before, most = _resident_bytes(), 0
    for _ in split.batches(500, shuffle=True):
        most = max(most, _resident_bytes() - before)
    assert most < 0.5 * split.images.nbytes, "no second copy of the data"


def test_making_a_set_takes_at_most_one_and_a_half_times_its_memory():
    load("shapes", samples=4)  # imports are not what is measured
    tracemalloc.start()
    shapes = load("shapes", samples=8_000)
    _, numpy_peak = tracemalloc.get_traced_memory()  # PyTorch's own memory is not traced: it holds the floats
    tracemalloc.stop()
    floats = shapes.train.images.nbytes + shapes.test.images.nbytes
    assert numpy_peak < 0.6 * floats


def _resident_bytes() -> int:
    import psutil

    return psutil.Process().memory_info().rss
