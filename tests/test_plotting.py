"""Pictures: always described, and the same bytes for the same content."""

import itertools

import pytest

from helpers import plotting


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict, dict]]:
    """What was displayed: data and metadata."""
    calls: list[tuple[dict, dict]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw, metadata: calls.append((data, metadata)))
    return calls


def drawn():
    figure, axes = plotting.figure()
    axes.plot([1, 3, 2])
    return figure


def test_the_png_of_a_figure_is_deterministic():
    assert plotting.png(drawn()) == plotting.png(drawn())


def test_the_png_names_no_software_version():
    assert b"Software" not in plotting.png(drawn())


def test_a_figure_is_shown_with_its_description(shown: list):
    plotting.show(drawn(), alt="a line")
    ((data, metadata),) = shown
    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == "a line"
    assert metadata == {"image/png": {"alt": "a line"}}


def test_an_svg_is_shown_with_its_description(shown: list):
    plotting.show_svg("<svg/>", alt="nothing")
    assert shown == [({"image/svg+xml": "<svg/>", "text/plain": "nothing"}, {"image/svg+xml": {"alt": "nothing"}})]


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_picture_without_description_is_refused(shown: list, alt: str):
    for show in (lambda: plotting.show(drawn(), alt=alt), lambda: plotting.show_svg("<svg/>", alt=alt)):
        with pytest.raises(ValueError, match="say in a sentence"):
            show()
    assert not shown


def test_the_description_cannot_be_left_out():
    with pytest.raises(TypeError, match="alt"):
        plotting.show(drawn())


def test_panels_come_as_an_array():
    _, axes = plotting.figure(columns=3, rows=2)
    assert axes.shape == (2, 3)


def test_figures_are_not_kept_by_pyplot():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    plotting.figure()
    assert plt.get_fignums() == before, "a notebook would keep every figure in memory"


def test_colours_differ_in_lightness_for_those_who_see_no_hue():
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    ordered = sorted(lightness(plotting.PALETTE[name]) for name in ("ink", "blue", "orange", "yellow"))
    assert all(b - a > 20 for a, b in itertools.pairwise(ordered))
