"""What the exceptions carry beside their text."""

from dashboard.errors import OptionsError


def test_wrong_options_are_one_text_and_each_mistake_stays_apart() -> None:
    """A sentence can hold a line break of its own."""
    error = OptionsError("name: too\nlong", "targets: missing")

    assert str(error) == "name: too\nlong\ntargets: missing"
    assert error.mistakes == ("name: too\nlong", "targets: missing")
