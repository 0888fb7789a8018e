"""The TensorFlow batches are PyTorch's, in the same order."""

import numpy as np
import pytest
import torch

from helpers.data import DataError, Split, load
from helpers.tf.data import batches


@pytest.fixture(scope="module")
def split() -> Split:
    return load("shapes", samples=70).train


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("epoch", [0, 3])
def test_same_batches_as_pytorch(split: Split, shuffle: bool, drop_last: bool, epoch: int):
    ours = split.batches(16, shuffle=shuffle, seed=5, drop_last=drop_last)
    theirs = batches(split, 16, shuffle=shuffle, seed=5, drop_last=drop_last)
    ours.set_epoch(epoch)
    theirs.set_epoch(epoch)
    assert len(theirs) == len(ours)
    for (images, labels), (tf_images, tf_labels) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(tf_images.numpy(), images.permute(0, 2, 3, 1).numpy())
        np.testing.assert_array_equal(tf_labels.numpy(), labels.numpy())


def test_every_pass_repeats_until_the_epoch_changes(split: Split):
    def labels() -> list[int]:
        return [int(label) for _, batch in dataset for label in batch]

    dataset = batches(split, 16, shuffle=True)
    first = labels()
    assert labels() == first
    dataset.set_epoch(1)
    assert labels() != first
    assert sorted(labels()) == sorted(first)


def test_skip_begins_inside_an_epoch(split: Split):
    whole = [labels.numpy().tolist() for _, labels in batches(split, 16, shuffle=True)]
    rest = [labels.numpy().tolist() for _, labels in batches(split, 16, shuffle=True).skip(2)]
    assert rest == whole[2:]


def test_epoch_can_be_given(split: Split):
    ours = split.batches(70, shuffle=True)
    ours.set_epoch(4)
    [(_, labels)] = batches(split, 70, shuffle=True, epoch=4)
    assert torch.equal(torch.from_numpy(labels.numpy()), next(iter(ours))[1])


def test_batch_size_must_be_positive(split: Split):
    with pytest.raises(DataError, match="batch_size is 0"):
        batches(split, 0)
