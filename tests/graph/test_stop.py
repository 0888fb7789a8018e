"""The scripted debugger stops where ``breakpoint()`` stands and leaves nothing behind."""

import sys

import pytest
import torch
from torch import nn

from helpers.graph import scripted_debugger


class Doubling(nn.Module):
    def forward(self, x):
        h = x * 2
        breakpoint()
        return h + 1


def test_it_stops_inside_forward_and_sees_its_variables(capsys):
    with scripted_debugger("p h.shape", "p self.training"):
        Doubling()(torch.ones(2, 3))
    assert capsys.readouterr().out.splitlines() == [
        "> stopped in Doubling.forward, 3 lines below its first",
        "(Pdb) p h.shape",
        "torch.Size([2, 3])",
        "(Pdb) p self.training",
        "True",
        "(Pdb) continue",
    ]


def test_the_program_goes_on_with_what_the_debugger_changed():
    with scripted_debugger("!h.fill_(10)"):
        assert Doubling()(torch.ones(2)).tolist() == [11.0, 11.0]


def test_it_stops_every_time(capsys):
    with scripted_debugger("p h.sum().item()"):
        for value in (1.0, 2.0):
            Doubling()(torch.tensor([value]))
    out = capsys.readouterr().out
    assert "2.0" in out
    assert "4.0" in out


def test_a_wrong_command_is_answered_and_does_not_end_the_program(capsys):
    with scripted_debugger("p no_such_name"):
        assert Doubling()(torch.ones(1)).item() == 3.0
    assert "NameError" in capsys.readouterr().out


def test_the_former_hook_comes_back():
    before, trace = sys.breakpointhook, sys.gettrace()
    with pytest.raises(RuntimeError, match="inside"), scripted_debugger():
        raise RuntimeError("inside")
    with scripted_debugger("p 1"):
        Doubling()(torch.ones(1))
    assert sys.breakpointhook is before
    assert sys.gettrace() is trace
