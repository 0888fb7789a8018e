"""Traces of real runs: small ones recorded here, and others' from GPUs where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

from helpers.profile.breakdown import Share, breakdown
from helpers.profile.steps import Origin
from helpers.profile.trace import read

TRACES = Path(__file__).parents[3] / "shared" / "traces"
STEPS = 4


class Heavy(TensorDataset):
    """Items that take some time to make."""

    def __getitem__(self, index):
        for _ in range(20):
            torch.sort(torch.arange(2000).flip(0))
        return super().__getitem__(index)


@pytest.fixture(autouse=True)
def one_thread():
    """Beside another job, operators on two threads wait for each other far longer than they compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def record(path: Path, kind: type[TensorDataset], *, marked: bool = True, stacks: bool = False) -> Path:
    """Train a small MLP under the profiler, with or without its step marks."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(kind(torch.randn(16 * (STEPS + 2), 64), torch.zeros(16 * (STEPS + 2)).long()), batch_size=16)
    plan = schedule(wait=1, warmup=1, active=STEPS) if marked else None
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=stacks) as profiler:
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            if marked and profiler.step_num < STEPS + 1:
                profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


@pytest.mark.parametrize("stacks", [False, True])
def test_a_recorded_run_shows_every_phase(tmp_path, stacks):
    found = breakdown(read(record(tmp_path / "trace.json.gz", TensorDataset, stacks=stacks)))
    assert found.steps.origin is Origin.PROFILER and len(found.steps) == STEPS
    assert sum(found.shares.values()) == pytest.approx(1)
    for share in (Share.DATA, Share.FORWARD, Share.BACKWARD, Share.OPTIMIZER):
        assert found.shares[share] > 0, share  # how large is the machine's affair
    assert found.device_busy is None and not found.notes


def test_items_that_are_slow_to_make_show_as_waiting_for_data(tmp_path):
    found = breakdown(read(record(tmp_path / "trace.json", Heavy)))
    data = found.table_us[:, list(Share).index(Share.DATA)] / found.table_us.sum(axis=1)
    assert np.median(data) > 0.6


def test_without_marks_the_optimizers_steps_are_the_steps(tmp_path):
    found = breakdown(read(record(tmp_path / "trace.json", TensorDataset, marked=False)))
    assert found.steps.origin is Origin.OPTIMIZER and len(found.steps) == STEPS + 1


def shared(name: str) -> Path:
    if not TRACES.is_dir():
        pytest.skip(f"the folder of GPU traces, {TRACES}, is not on this machine")
    return TRACES / f"{name}.json.gz"


EXPECTED = {
    # name: (steps found, spans at least, device busy between)
    "resnet50_workers0_v100": (6, 40_000, (0.5, 0.6)),
    "resnet50_workers4_v100": (6, 40_000, (0.65, 0.8)),
    "ns_resolution_rank0": (5, 40_000, (0.9, 1.0)),
    "sampled_rank0": (2, 4_000, (0.4, 0.5)),
    "sampled_rank1": (2, 4_000, (0.4, 0.5)),
    "bert_small_h100": (1, 2_000, (0.05, 0.1)),
    "vit_mi300": (1, 4_000, (0.15, 0.3)),
    "alexnet_gpu": (0, 800, (0.0, 0.01)),
    "eager_b200": (0, 20_000, (0.1, 0.2)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_gpu_traces_of_all_formats_read_and_add_up(name):
    steps, spans, (low, high) = EXPECTED[name]
    trace = read(shared(name))
    found = breakdown(trace)
    assert len(trace) >= spans and not trace.dropped
    assert (len(found.steps) if found.steps.origin is not Origin.NONE else 0) == steps
    assert sum(found.shares.values()) == pytest.approx(1) and (found.table_us >= 0).all()
    assert found.device_busy is not None and low < found.device_busy < high
    assert found.shares[Share.FORWARD] > 0.1


def test_without_workers_the_gpu_waits_for_data_and_with_four_it_does_not():
    without, four = (breakdown(read(shared(f"resnet50_workers{n}_v100"))).shares for n in (0, 4))
    assert without[Share.DATA] > 0.3 and four[Share.DATA] < 0.03
    assert without[Share.BACKWARD] > without[Share.FORWARD]


def test_two_ranks_of_one_run_tell_waiting_from_transfer():
    zero, one = (read(shared(f"sampled_rank{rank}")) for rank in (0, 1))
    assert (zero.rank, one.rank) == (0, 1)
    alone, together = breakdown(zero).shares, breakdown(zero, peers=[one]).shares
    assert together[Share.RANK_WAIT] > 0.02
    assert together[Share.RANK_WAIT] + together[Share.TRANSFER] == pytest.approx(alone[Share.TRANSFER])
