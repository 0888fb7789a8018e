"""Batches of the course's data as a ``tf.data.Dataset``, in the order that PyTorch sees.

The sets themselves come from :func:`helpers.data.load`; the order of an epoch comes from
:class:`helpers.data.Batches`, so that both frameworks see the same samples in the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.data import Batches
from helpers.tf import tensorflow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from helpers.data import Split


def batches(
    split: Split, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False, epoch: int = 0
) -> Any:
    """Return the split's batches as a ``tf.data.Dataset``.

    Args:
        split: Where the samples come from.
        batch_size: Samples per batch; the last batch may be shorter.
        shuffle: Whether to permute the samples anew in every epoch.
        seed: Of the permutation.
        drop_last: Whether to leave a short last batch out.
        epoch: The epoch that the first pass belongs to.

    Returns:
        A dataset of ``(images [B, H, W, C] float32, labels [B] int64)`` with a known length. Like PyTorch's
        :class:`~helpers.data.Batches` it has ``set_epoch(epoch)``, which chooses the order of the passes that begin
        afterwards. To begin inside an epoch, use ``dataset.skip(steps)``.

    Raises:
        DataError: The batch size is not positive.
    """
    tf = tensorflow()
    source = Batches(split, batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last)
    with tf.device("CPU"):  # tf.data works on the host
        images = tf.constant(to_nhwc(split.images))
        labels = tf.constant(split.labels.numpy(force=True))
        current = tf.Variable(epoch, dtype=tf.int64, trainable=False)

    def order(epoch_number: NDArray[np.int64]) -> NDArray[np.int64]:
        source.set_epoch(int(epoch_number))
        return source.order().numpy()

    def one_pass(_: Any) -> Any:
        indices = tf.numpy_function(order, [current.read_value()], tf.int64)  # the only Python per epoch
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(indices, [len(split)]))

    dataset = tf.data.Dataset.from_tensors(0).flat_map(one_pass).batch(batch_size, drop_remainder=drop_last)
    dataset = dataset.map(lambda chosen: (tf.gather(images, chosen), tf.gather(labels, chosen)))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(source)))
    dataset.set_epoch = current.assign
    return dataset


def to_nhwc(images: Any) -> NDArray[np.float32]:
    """Return PyTorch images ``[N, C, H, W]`` as a NumPy array ``[N, H, W, C]``, TensorFlow's layout."""
    array: NDArray[np.float32] = images.permute(0, 2, 3, 1).numpy(force=True)
    return array
