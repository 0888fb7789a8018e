"""The same model under Lightning: equal losses, no noise, nothing left behind."""

import logging
import os
import subprocess
import sys

import pytest

from helpers import models, train
from helpers.config import TrainConfig
from helpers.data import Split, load
from helpers.lightning import Classifier, EpochLoader, StepLosses, trainer
from helpers.seeding import seed_all


@pytest.fixture(scope="module")
def split() -> Split:
    return load("digits", samples=100).train


@pytest.fixture(autouse=True)
def scratch(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_losses_and_metrics_equal_the_own_loop(split: Split):
    seed_all(0)
    ours, theirs = models.mlp(), models.mlp()
    models.same_weights(theirs, ours)
    config = TrainConfig(epochs=2, device="cpu", progress=False)
    history = train.fit(ours, split.batches(32, shuffle=True), config)
    losses, loader = StepLosses(), EpochLoader(split.batches(32, shuffle=True))
    loader.set_epoch(5)  # what an earlier run may have left
    run = trainer(max_epochs=2, accelerator="cpu", callbacks=[losses])
    run.fit(Classifier(theirs, lr=config.lr, momentum=config.momentum), loader)
    assert losses.values == pytest.approx(history.step_losses, rel=1e-5)
    assert run.callback_metrics["loss"].item() == pytest.approx(history.last.train.loss, rel=1e-5)
    assert run.callback_metrics["accuracy"].item() == pytest.approx(history.last.train.accuracy)


def test_a_resumed_run_takes_the_right_epoch(split: Split, tmp_path):
    def run(epochs, **options):
        seed_all(0)
        losses = StepLosses()
        made = trainer(max_epochs=epochs, accelerator="cpu", callbacks=[losses])
        made.fit(Classifier(models.mlp()), EpochLoader(split.batches(32, shuffle=True)), **options)
        return made, losses.values

    whole = run(2)[1]
    first, values = run(1)
    first.save_checkpoint(tmp_path / "one.ckpt")
    assert values + run(2, ckpt_path=tmp_path / "one.ckpt")[1] == whole


def test_no_losses_before_the_first_step():
    assert StepLosses().values == []


def test_it_writes_nothing_and_prints_nothing(split: Split, scratch):
    code = (
        "from helpers import models, data; from helpers.lightning import Classifier, trainer\n"
        "split = data.load('digits', samples=64).train\n"
        "trainer(max_epochs=1, accelerator='cpu').fit(Classifier(models.mlp()), split.batches(32))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path for path in scratch.rglob("*") if path.is_file()] == []


def test_options_win_over_the_quiet_ones(scratch):
    run = trainer(max_epochs=3, default_root_dir=scratch)
    assert (run.max_epochs, run.default_root_dir) == (3, str(scratch))
    assert logging.getLogger("lightning.pytorch").level == logging.WARNING
