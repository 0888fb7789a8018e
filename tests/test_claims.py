"""Claims: verdicts, marked numbers, and what is read back from notebooks."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers import claims
from helpers.claims import METADATA_KEY, Claim, Verdict, claim, collect, measured, to_html
from helpers.errors import CourseError

HOSTILE = "<script>alert(1)</script>&\"'"
STORED = {"statement": "s", "verdict": "holds", "because": "b", "depends_on": None}


@pytest.mark.parametrize(
    ("holds", "depends_on", "verdict"),
    [
        (True, None, "holds"),
        (False, None, "does not hold"),
        (np.bool_(False), None, "does not hold"),
        (True, "the batch size", "depends"),
    ],
)
def test_the_verdict_follows_the_measurement(holds: bool, depends_on: str | None, verdict: str):
    assert claim("x", holds=holds, because="y", depends_on=depends_on).verdict == verdict


def test_a_dependence_that_was_not_seen_is_an_error():
    with pytest.raises(CourseError, match=r"depends on size.*did not show it: too small"):
        claim("x", holds=False, because="too small.", depends_on="size")


def test_no_text_of_a_claim_gets_into_the_page_as_markup():
    made = claim(HOSTILE, holds=True, because=f"{measured(HOSTILE)}{HOSTILE}", depends_on=HOSTILE)
    assert "<script" not in made._repr_html_()


NUMBERS = {
    3.14159: "3.14", 0.000123456: "0.000123", 1e-5: "1e-05", 999.9: "1,000", 999.4: "999", 1234567.8: "1,234,568",
    5e12: "5e+12", -1234.5: "-1,234", 0.0: "0", 7: "7", 60_000: "60000", np.float32(0.1): "0.1", "12.5%": "12.5%",
    float("inf"): "inf", True: "True",
}  # fmt: skip


@pytest.mark.parametrize(("value", "text"), NUMBERS.items(), ids=str)
def test_measured_numbers_are_short_and_readable(value: object, text: str):
    assert measured(value) == f"⟨{text}⟩"


def test_a_measured_number_has_a_unit_and_as_many_digits_as_asked():
    assert measured(1.23456, "ms", digits=2) == "⟨1.2 ms⟩"


def test_what_nbval_leaves_out_is_the_measured_number_alone():
    import configparser

    rules = configparser.RawConfigParser()
    rules.read(Path(__file__).parent / "nbval_sanitize.cfg")

    def sanitized(text: str) -> str:
        for name in rules.sections():
            text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
        return text

    here, there = (claim("s", holds=True, because=f"it took {measured(value, 'ms')}.") for value in (1.5, 20.25))
    other = claim("s", holds=False, because=f"it took {measured(1.5, 'ms')}.")
    for show in (repr, Claim._repr_html_):
        assert sanitized(show(here)) == sanitized(show(there))
        assert sanitized(show(here)) != sanitized(show(other))


@settings(deadline=None)  # times mean nothing on a busy machine
@given(st.text(alphabet="⟨⟩<>`a", max_size=12))
def test_elements_are_closed_whatever_the_brackets_and_backticks(text: str):
    open_now = []
    for closing, name in re.findall("<(/?)([^ >]*)", to_html(text)):
        assert name in {"span", "code"}
        if closing:
            assert open_now.pop() == name
        else:
            open_now.append(name)
    assert open_now == []


def test_backticks_are_shown_as_code():
    made = claim("`f(a<b)` is free", holds=True, depends_on="`n`", because="`.item()` waits.")
    page = made._repr_html_()
    assert "`" not in page and "<code>f(a&lt;b)</code>" in page and page.count("<code>") == 3


def notebook(path: Path, *stored: object) -> Path:
    outputs = [{"metadata": {METADATA_KEY: one}} for one in stored]
    path.write_text(json.dumps({"cells": [{"id": "c1", "outputs": outputs}, {"cell_type": "markdown"}]}))
    return path


def test_claims_are_read_back_in_order(tmp_path: Path):
    paths = [notebook(tmp_path / "b.ipynb", STORED, {**STORED, "statement": "t"}), notebook(tmp_path / "a.ipynb")]
    found = list(collect(paths))
    assert [(path.name, cell, made.statement) for path, cell, made in found] == [
        ("b.ipynb", "c1", "s"),
        ("b.ipynb", "c1", "t"),
    ]
    assert found[0][2] == Claim(statement="s", verdict=Verdict.HOLDS, because="b")


def test_a_claim_survives_storing():
    made = claim("s", holds=True, because="b", depends_on="d")
    assert claims._restore(Path("x"), json.loads(json.dumps(dataclasses.asdict(made)))) == made


BROKEN = {
    "not JSON": "{",
    "not a notebook": '{"a": 1}',
    "a list": "[]",
    "a number": "3",
    "cells are a text": '{"cells": "x"}',
    "cells are null": '{"cells": null}',
    "a cell is a number": '{"cells": [3]}',
    "outputs are null": '{"cells": [{"outputs": null}]}',
    "an output is a text": '{"cells": [{"outputs": ["x"]}]}',
    "metadata is a list": '{"cells": [{"outputs": [{"metadata": []}]}]}',
    "deep nesting": "[" * 200_000,
    "deep cells": '{"cells": ' + "[" * 200_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_is_no_notebook_is_named(tmp_path: Path, content: str):
    (tmp_path / "n.ipynb").write_text(content)
    with pytest.raises(CourseError, match=r"n\.ipynb is not a notebook .*Give the path"):
        list(collect([tmp_path / "n.ipynb"]))


def test_bytes_that_are_no_text_are_named(tmp_path: Path):
    (tmp_path / "n.ipynb").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CourseError, match="not a notebook"):
        list(collect([tmp_path / "n.ipynb"]))


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(CourseError, match=r"gone\.ipynb is not a notebook"):
        list(collect([tmp_path / "gone.ipynb"]))


UNREADABLE = {
    "a text": "x",
    "a number": 3,
    "a list": [1, 2],
    "no verdict": {"statement": "s", "because": "b"},
    "an unknown verdict": {**STORED, "verdict": "perhaps"},
    "a verdict of another type": {**STORED, "verdict": ["holds"]},
    "an extra field": {**STORED, "extra": 1},
    "no statement": {"verdict": "holds", "because": "b"},
    "a statement that is a number": {**STORED, "statement": 5},
    "a reason that is null": {**STORED, "because": None},
    "a dependence that is a list": {**STORED, "depends_on": ["x"]},
}


@pytest.mark.parametrize("stored", UNREADABLE.values(), ids=UNREADABLE)
def test_a_claim_that_cannot_be_read_is_named(tmp_path: Path, stored: object):
    with pytest.raises(CourseError, match=r"n\.ipynb holds a claim that cannot be read: .*Run the notebook again"):
        list(collect([notebook(tmp_path / "n.ipynb", stored)]))


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["holds", "depends"])
keys = st.sampled_from(["cells", "outputs", "metadata", METADATA_KEY, "id", "statement", "verdict", "because"])
documents = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(document=documents, stored=documents)
def test_any_json_gives_claims_or_a_course_error(tmp_path: Path, document: object, stored: object):
    (tmp_path / "n.ipynb").write_text(json.dumps(document))
    for path in (tmp_path / "n.ipynb", notebook(tmp_path / "m.ipynb", stored)):
        try:
            found = list(collect([path]))
        except CourseError:
            continue
        assert all(made._repr_html_() for _, _, made in found)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A running IPython whose outputs are caught."""
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    publisher = CapturingDisplayPublisher()
    monkeypatch.setattr(shell, "display_pub", publisher)
    monkeypatch.setattr(shell.display_formatter, "active_types", shell.display_formatter.format_types)

    def run(code: str) -> list[dict]:
        publisher.outputs.clear()
        assert shell.run_cell(code, store_history=True).success
        assert "“s”" not in capsys.readouterr().out, "the value was shown a second time"
        return list(publisher.outputs)

    yield run
    InteractiveShell.clear_instance()


CLAIM = "from helpers.claims import claim\nmade = claim('s', holds=True, because='b')"


@pytest.mark.parametrize("last", ["", "\nmade"])
def test_a_claim_cell_shows_its_box_once_and_keeps_the_claim(shell, last: str):
    (output,) = shell(CLAIM + last)
    assert output["metadata"] == {METADATA_KEY: STORED}
    assert "loop-claim" in output["data"]["text/html"]


def test_a_claim_can_be_shown_again_in_a_later_cell(shell):
    shell(CLAIM)
    shell("other = 1")
    (output,) = shell("made")
    assert "loop-claim" in output["data"]["text/html"]


def test_the_evidence_is_a_sentence_of_its_own_in_the_box() -> None:
    made = Claim(statement="x", verdict=Verdict.HOLDS, because="it was measured")
    assert "<div>It was measured.</div>" in made._repr_html_()
    assert made._repr_html_() == dataclasses.replace(made, because="It was measured.")._repr_html_()
