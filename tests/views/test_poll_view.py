"""What poll prints. The golden outputs show it whole."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import Basis
from dashboard.render.terminal import to_terminal
from dashboard.views.command_line import poll_view
from tests.builders import document, down, fleet, replica


def text(of: Fleet, *, colour: bool = False) -> str:
    return to_terminal(poll_view(of), width=200, colour=colour)


def test_a_pool_without_two_replicas_to_compare_says_so() -> None:
    one = document()

    assert "Not compared: 1 replica read." in text(fleet([replica("a", document=one)], [one]))
    assert "Not compared: 0 replicas read." in text(fleet([down("a")]))
    assert "0 of 0 answered" in text(empty_fleet("nothing"))


def test_an_upper_bound_is_marked_and_so_is_an_unknown_capacity(demo_fleet: Fleet) -> None:
    first = next(each for each in demo_fleet.replicas if each.engines)
    bound, lost = first.engines[0]._replace(basis=Basis.ASSUMED), first.engines[0]._replace(kv_cache_size_tokens=None)
    assumed, unknown = (
        replace(demo_fleet, replicas=(replace(first, engines=(each,)),), pools=()) for each in (bound, lost)
    )

    assert f"≤ {bound.kv_cache_size_tokens:,}" in text(assumed)
    assert "not known" in text(unknown)


def test_control_characters_and_markup_of_strangers_are_shown_as_text(demo_fleet: Fleet) -> None:
    hostile = replace(demo_fleet.replicas[0], name="\x1b[31m[bold]evil[/bold]\u202e\n")
    shown = text(replace(demo_fleet, replicas=(hostile,), pools=()), colour=True)

    assert "\x1b[31m[bold]" not in shown
    assert "[bold]evil[/bold]" in shown
    assert "\u202e" not in shown
