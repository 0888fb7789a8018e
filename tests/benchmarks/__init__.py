"""The training loop beside its peers: ``make bench``.

Run it with ``python -m tests.benchmarks`` from the root of the checkout (``--quick`` for a trial on little
data that writes nothing). It needs the extra ``peers``. No file here is named ``test_*``: these are measurements
that take minutes, and ``make test`` leaves them alone.

How it is measured:

- Each contender lives in a process of its own, because the thread pools of PyTorch and TensorFlow disturb
  each other. The processes take turns, A B C A B C …; who does not have the turn sleeps on a pipe.
- A ratio is taken round by round, and the median of the rounds counts (:mod:`helpers.timing`).
- All train the same model from the same weights on the same data: images and labels in the shape of MNIST,
  written as real IDX files. Their losses and accuracies are compared, so that nobody wins by doing less.
- PyTorch has one thread where nothing else is said. A second one helps this small model little, and its threads
  spin while they wait for each other: where something else needs the core, a step takes ten times as long and
  more. TensorFlow's threads are left as it chooses them, in Keras's favour.
- Peers get the fastest ordinary use known to us: the course's in-memory batches instead of a ``DataLoader``,
  the fused optimizer, scores kept on the device, no progress bar.
"""
