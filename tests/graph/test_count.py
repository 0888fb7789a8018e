"""Graph breaks and recompiles are counted with their lines and guards, and counting leaves nothing behind."""

import logging

import pytest
import torch
from torch import nn

from helpers.errors import CourseError
from helpers.graph import count_graph_breaks, count_recompiles, quiet_compiler, recompile_log, why_not_exported


def branch(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y


def scale(x, factor):
    return x * factor


def lengths(*sizes):
    return [(torch.ones(size), 1.0) for size in sizes]


def test_a_straight_function_is_one_graph():
    found = count_graph_breaks(lambda x: torch.relu(x) * 2, torch.ones(3))
    assert (found.graphs, found.breaks) == (1, ())


def test_a_branch_on_data_breaks_and_names_its_line():
    found = count_graph_breaks(branch, torch.ones(3))
    assert found.graphs == 2
    (only,) = found.breaks
    assert (only.function, only.source) == ("branch", "if y.sum() > 0:")
    assert "value of a tensor" in only.reason


def test_breaks_after_the_first_are_named_by_the_function_they_are_in(capsys):
    def twice(x):
        y = x * 2
        print("largest", y.max().item())
        if y.sum() > 0:
            y = y + 1
        return y

    found = count_graph_breaks(twice, torch.ones(3))
    assert [b.function for b in found.breaks] == ["twice", "twice"]
    assert "Tensor.item()" in found.breaks[0].reason
    assert capsys.readouterr().out == "largest 2.0\n"


def test_a_module_can_be_counted():
    assert count_graph_breaks(nn.Linear(3, 2), torch.ones(4, 3)).graphs == 1


def test_sizes_are_learned_from_the_second():
    found = count_recompiles(scale, lengths(8, 8, 9, 10))
    assert found.compilations == 2
    (only,) = found.recompiles
    assert only.call == 2
    assert only.guard == "tensor 'x' size mismatch at index 0. expected 8, actual 9"


def test_a_python_number_and_a_data_type_recompile():
    x = torch.ones(3)
    found = count_recompiles(scale, [(x, 1.0), (x, 2.0), (x.double(), 2.0)])
    assert [r.call for r in found.recompiles] == [1, 2]
    assert found.recompiles[0].guard == "factor == 1.0"
    assert "dtype mismatch" in found.recompiles[1].guard


def test_the_limit_of_versions_is_reported():
    found = count_recompiles(scale, lengths(*range(2, 14)), dynamic=False)
    assert found.gave_up
    assert found.compilations == torch._dynamo.config.recompile_limit
    assert "limit reached" in repr(found)


def test_counting_twice_gives_the_same_count():
    first, second = (count_recompiles(scale, lengths(*range(2, 14)), dynamic=False) for _ in range(2))
    assert first == second


def test_counting_leaves_the_function_free_to_compile_again():
    count_recompiles(scale, lengths(*range(2, 14)), dynamic=False)
    assert count_recompiles(scale, lengths(2, 3)).compilations == 2


def test_compiled_functions_are_refused():
    compiled = torch.compile(scale, backend="eager")
    for count in (lambda: count_graph_breaks(compiled, torch.ones(2)), lambda: count_recompiles(compiled, [()])):
        with pytest.raises(CourseError, match="compiled already"):
            count()
    with pytest.raises(CourseError, match="compiled already"):
        count_graph_breaks(torch.compile(nn.Linear(2, 2), backend="eager"), torch.ones(2, 2))


@pytest.mark.parametrize("calls", [[], [torch.ones(2)], [[torch.ones(2)]]])
def test_calls_must_be_tuples(calls):
    with pytest.raises(CourseError, match="one tuple of arguments for each call"):
        count_recompiles(scale, calls)


def test_an_error_of_the_function_passes():
    with pytest.raises(ZeroDivisionError):
        count_recompiles(lambda x: x * (1 // 0), [(torch.ones(2),)])


def test_the_log_is_what_a_job_would_print_without_times_and_paths():
    lines = recompile_log(scale, lengths(8, 9)).splitlines()
    assert "Recompiling function scale in test_count.py:" in lines[0]
    assert "expected 8, actual 9" in lines[-1]
    assert not any("/tests/" in line for line in lines)


def test_export_refuses_a_branch_on_data_and_says_so(capsys):
    class Branch(nn.Module):
        def forward(self, x):
            return branch(x)

    assert "data-dependent" in (why_not_exported(Branch(), torch.ones(2)) or "")
    assert why_not_exported(nn.Linear(2, 2), torch.ones(1, 2)) is None
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_quiet_compiler_puts_the_levels_back():
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    with pytest.raises(RuntimeError, match="inside"), quiet_compiler():
        assert logger.level == logging.ERROR
        raise RuntimeError("inside")
    assert logger.level == before


def test_results_escape_what_they_show():
    html = count_graph_breaks(branch, torch.ones(3))._repr_html_()
    assert "if y.sum() &gt; 0:" in html
