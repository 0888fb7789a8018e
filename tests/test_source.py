"""Showing source: what runs, without what would distract."""

import functools

import pytest

from helpers import config, source


def plain(x):
    """Say what it does.

    At length.
    """
    y = x + 1
    return y


def wrapped(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)

    return inner


@wrapped
def decorated(x):
    """Doc."""
    return x


class Holder:
    """Doc of the class."""

    value = 1

    def method(self):
        """Doc of the method."""
        return self.value


class Empty:
    """A class that is its docstring."""


def one_line(): """Doc."""; return 1  # noqa: E702  # fmt: skip


def shouting():
    "not a docstring".upper()
    return 1


WITHOUT_DOCSTRING = {
    plain: "def plain(x):\n    y = x + 1\n    return y\n",
    decorated: "@wrapped\ndef decorated(x):\n    return x\n",
    Holder: (
        "class Holder:\n\n    value = 1\n\n    def method(self):\n"
        '        """Doc of the method."""\n        return self.value\n'
    ),
    Holder.method: "def method(self):\n    return self.value\n",
    shouting: 'def shouting():\n    "not a docstring".upper()\n    return 1\n',
}


@pytest.mark.parametrize(("thing", "text"), WITHOUT_DOCSTRING.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_the_docstring_is_dropped(thing: object, text: str):
    assert source.read(thing) == text


def test_the_docstring_can_be_kept():
    assert '"""Say what it does.' in source.read(plain, docstring=True)


@pytest.mark.parametrize("thing", [Empty, one_line])
def test_a_docstring_that_cannot_go_without_breaking_the_code_stays(thing: object):
    compile(source.read(thing), "shown", "exec")
    assert "oc" in source.read(thing)


def test_a_lambda_is_shown_with_its_line():
    pair = {
        "double": lambda x: 2 * x,
    }
    assert source.read(pair["double"]) == '"double": lambda x: 2 * x,\n'


def test_a_module_is_shown_whole():
    assert source.read(config) == source.inspect.getsource(config)


@pytest.mark.parametrize(("lines", "text"), [((2, 2), "y = x + 1\n"), ((1, 3), WITHOUT_DOCSTRING[plain])])
def test_lines_are_counted_without_the_docstring(lines: tuple[int, int], text: str):
    assert source.read(plain, lines=lines) == text


@pytest.mark.parametrize("lines", [(0, 1), (2, 1), (1, 4), (-2, -1)])
def test_lines_outside_the_source_are_refused(lines: tuple[int, int]):
    with pytest.raises(ValueError, match=f"lines {lines[0]} to {lines[1]} were asked for; the source has lines 1 to 3"):
        source.read(plain, lines=lines)


@pytest.mark.parametrize("thing", [len, int, 3, "text", functools.partial(plain)])
def test_what_has_no_source_is_refused(thing: object):
    with pytest.raises(ValueError, match="has no Python source"):
        source.read(thing)


def test_show_highlights_python():
    assert "highlight" in source.show(plain)._repr_html_()
