"""How the loop treats loaders and its progress bar: one pass an epoch, nothing left behind after a failure."""

import copy
import io
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, TensorDataset
from tqdm.auto import tqdm

from helpers import train
from helpers.config import ConfigError
from helpers.data import Split
from helpers.errors import CourseError
from helpers.explain import BatchError
from helpers.train import evaluate, fit
from tests.runs import BATCH, one_thread, quiet, small_mlp, ten_batches, vector


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def split() -> Split:
    return ten_batches()


@pytest.fixture
def model() -> nn.Module:
    return small_mlp()


LOADERS = {
    "batches": lambda split: split.batches(BATCH),
    "a list": lambda split: list(split.batches(BATCH)),
    "a DataLoader": lambda split: DataLoader(split.dataset(), batch_size=BATCH),
    "a generator": lambda split: (pair for pair in split.batches(BATCH)),
}


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
def test_every_kind_of_loader_gives_the_same_run(model, split: Split, loader):
    other = copy.deepcopy(model)
    expected = fit(other, split.batches(BATCH), quiet(epochs=1)).step_losses
    history = fit(model, loader(split), quiet(epochs=1), evaluate_on=loader(split))
    assert history.step_losses == expected
    assert history.last.evaluation is not None and history.last.evaluation.samples == len(split)


@pytest.mark.parametrize("name", ["train", "evaluate_on"])
def test_a_loader_that_can_be_read_once_is_refused_before_it_is_needed_twice(model, split: Split, name: str):
    before = vector(model)
    loaders = {"train": split.batches(BATCH), "evaluate_on": split.batches(BATCH)}
    loaders[name] = iter(list(split.batches(BATCH)))
    with pytest.raises(CourseError, match=rf"{name} is a list_iterator, .*but 2 epochs are to be run.*epochs=1"):
        fit(model, loaders["train"], quiet(), evaluate_on=loaders["evaluate_on"])
    assert torch.equal(vector(model), before), "not a step was taken"


@pytest.mark.parametrize("loader", [[], Split(torch.zeros(3, 4), torch.zeros(3)).batches(8, drop_last=True)])
def test_an_empty_loader_is_named(model, loader):
    for use in (lambda: fit(model, loader, quiet()), lambda: evaluate(model, loader, device="cpu")):
        with pytest.raises(CourseError, match=r"the loader yielded no batch; .*drop_last"):
            use()


def test_a_loader_without_a_length_trains_at_a_constant_rate_only(model, split: Split):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(TensorDataset(split.images[:8], split.labels[:8]))

    loader = DataLoader(Stream(), batch_size=4)
    assert len(fit(model, loader, quiet()).step_losses) == 4
    with pytest.raises(ConfigError, match="the loader has no length"):
        fit(model, loader, quiet(schedule="linear"))


def test_every_sampler_that_wants_to_know_is_told_the_epoch_once(model, split: Split):
    class Noting(DistributedSampler):
        def set_epoch(self, epoch: int) -> None:
            told.append(epoch)
            super().set_epoch(epoch)

    told: list[int] = []
    data = split.first(64).dataset()
    sampler = Noting(data, num_replicas=2, rank=0)
    batched = BatchSampler(sampler, 8, drop_last=False)
    for loader in (DataLoader(data, batch_size=8, sampler=sampler), DataLoader(data, batch_sampler=batched)):
        told.clear()
        fit(model, loader, quiet(epochs=3))
        assert told == [0, 1, 2]


@pytest.mark.parametrize("progress", [True, False])
def test_each_epoch_asks_a_loader_for_one_pass(model, split: Split, progress: bool):
    class Counted(list):
        passes = 0

        def __iter__(self):
            self.passes += 1
            return super().__iter__()

    loader = Counted(split.batches(BATCH))
    fit(model, loader, quiet(progress=progress))
    assert loader.passes == 2, "two passes would start a DataLoader's workers twice"


def test_a_run_can_begin_within_an_epoch(model, split: Split):
    batches = split.batches(BATCH)
    batches.start_at(8 * BATCH)
    assert [record.train.samples for record in fit(model, batches, quiet()).epochs] == [
        len(split) - 8 * BATCH,
        len(split),
    ]


def test_batches_are_told_the_epoch(model, split: Split):
    batches = split.batches(BATCH, shuffle=True)
    fit(model, batches, quiet(epochs=3))
    assert batches.epoch == 2


class Bars:
    """Keeps what each progress bar showed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tqdm] = []
        self.postfixes: list[str] = []

        def make(*args, **kwargs) -> tqdm:
            bar = tqdm(*args, **{**kwargs, "file": io.StringIO()})
            self.made.append(bar)
            show = bar.set_postfix
            bar.set_postfix = lambda **values: (self.postfixes.append(values["loss"]), show(**values))
            return bar

        monkeypatch.setattr(train, "tqdm", make)

    @property
    def open(self) -> int:
        return sum(not bar.disable for bar in self.made)  # closing a bar disables it


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    return Bars(monkeypatch)


def test_the_bar_shows_the_loss_every_so_many_steps(bars: Bars, model, split: Split):
    history = fit(model, split.batches(BATCH), quiet(progress=True, log_every=4))
    losses = history.step_losses
    assert bars.postfixes == [f"{losses[step]:.4f}" for step in (3, 7, 13, 17)]
    assert [bar.n for bar in bars.made] == [10, 10]
    assert bars.open == 0


def failing(split: Split) -> Iterator[tuple[Tensor, Tensor]]:
    yield split.images[:8], split.labels[:8]
    raise OSError("the disk is gone")


def followed_by(second: object):
    """Return what makes a loader of a sound batch and one that is not."""
    return lambda split: [(split.images[:8], split.labels[:8]), second]


FAILURES = {
    "the loader": (failing, OSError),
    "a batch": (followed_by((torch.zeros(2, 784), torch.tensor([0, 90]))), BatchError),
    "the form of a batch": (followed_by("x"), BatchError),
}


@pytest.mark.parametrize(("loader", "error"), FAILURES.values(), ids=FAILURES)
def test_a_failure_closes_the_bar_and_leaves_no_hook(bars: Bars, model, split: Split, loader, error: type):
    with pytest.raises(error) as caught:  # holds the traceback, as a notebook does
        fit(model, loader(split), quiet(progress=True, epochs=1))
    assert bars.open == 0, caught
    assert not any(module._forward_hooks for module in model.modules())


def test_no_bar_is_made_visible_when_none_is_wanted(capsys: pytest.CaptureFixture[str], model, split: Split):
    fit(model, split.batches(BATCH), quiet())
    assert capsys.readouterr() == ("", "")
