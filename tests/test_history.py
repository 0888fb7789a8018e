"""What a run leaves: a table with marked numbers, and a picture."""

import pytest

from helpers.history import EpochRecord, History, Metrics
from helpers.plotting import png

HOSTILE = "<script>alert(1)</script>"


def record(epoch: int, *, evaluated: bool = False) -> EpochRecord:
    metrics = Metrics(loss=1.0 / (epoch + 1), accuracy=0.5, samples=100)
    return EpochRecord(epoch=epoch, train=metrics, evaluation=metrics if evaluated else None, seconds=2.0)


def history(epochs: int, **kwargs: bool) -> History:
    made = History(epochs=[record(epoch, **kwargs) for epoch in range(epochs)])
    made.step_losses = [float(step) for step in range(5 * epochs)]
    return made


def test_the_table_has_one_line_per_epoch_counted_from_one():
    assert repr(history(2)).splitlines() == [
        "epoch 1, loss ⟨1⟩, accuracy ⟨50.0%⟩, time ⟨2 s⟩",
        "epoch 2, loss ⟨0.5⟩, accuracy ⟨50.0%⟩, time ⟨2 s⟩",
    ]


def test_the_evaluation_has_columns_only_where_there_was_one():
    assert "evaluation" not in history(1)._repr_html_()
    assert history(1, evaluated=True)._repr_html_().count("<th>evaluation") == 2


def test_a_history_with_one_evaluated_epoch_keeps_its_columns_straight():
    made = History(epochs=[record(0), record(1, evaluated=True)])
    rows = made._repr_html_().split("<tr>")[1:]
    assert [row.count("<td>") + row.count("<th>") for row in rows] == [6, 6, 6]


def test_numbers_of_a_run_are_marked_as_measured():
    assert history(1)._repr_html_().count('class="measured"') == 3


def test_the_reason_of_stopping_is_shown_and_escaped():
    made = history(1)
    made.stopped = HOSTILE
    assert "Stopped early: &lt;script&gt;" in made._repr_html_()
    assert "<script" not in made._repr_html_()


def test_throughput_is_samples_over_seconds():
    assert record(0).samples_per_s == 50


def test_the_last_epoch():
    assert history(3).last.epoch == 2
    with pytest.raises(IndexError):
        _ = History().last


@pytest.mark.parametrize("made", [History(), history(1), history(3, evaluated=True)], ids=["none", "one", "three"])
def test_a_history_of_any_length_can_be_drawn(made: History):
    assert png(made.plot()).startswith(b"\x89PNG")


def test_the_picture_shows_every_step_and_each_epoch_where_it_ended():
    left, right = history(3, evaluated=True).plot().axes
    steps, means = left.get_lines()
    assert list(steps.get_xdata()) == list(range(1, 16))
    assert list(means.get_xdata()) == [5, 10, 15]
    assert list(means.get_ydata()) == pytest.approx([1, 1 / 2, 1 / 3])
    assert [line.get_label() for line in right.get_lines()] == ["training", "evaluation"]
    assert list(right.get_lines()[0].get_ydata()) == [50, 50, 50]
