"""The context of a comparison has both sides."""

from dataclasses import replace

from dashboard.views.context import Context, context_of, context_parts, short_parts
from tests.builders import NOW, POLLED_AT, fleet, replica

BEFORE = Context("prod", POLLED_AT, 39, 40, snapshot="3fa9c01b2e", name="Monday", rule_set=2, program_version="1")
LIVE = Context("prod", NOW, 38, 40, rule_set=2, program_version="1")


def test_each_side_has_its_own_fleet_name() -> None:
    parts = context_parts(replace(LIVE, before=replace(BEFORE, fleet="old")))

    assert parts[0].startswith("before: old, snapshot 3fa9c01b2e")
    assert parts[1].startswith("after: prod, live, ")


def test_the_short_form_has_both_sides() -> None:
    both = replace(LIVE, snapshot="0123456789", before=BEFORE)

    assert short_parts(both) == (
        "prod",
        "snapshot 3fa9c01b2e to snapshot 0123456789",
        "data as of 2026-03-02T11:42:05Z to 2026-03-02T11:42:13Z",
    )
    assert short_parts(replace(LIVE, before=replace(BEFORE, fleet="old")))[0] == "old to prod"
    assert short_parts(BEFORE) == ("prod", "snapshot 3fa9c01b2e “Monday”", "data as of 2026-03-02T11:42:05Z")


def test_saved_answers_have_the_time_of_their_import() -> None:
    """Where only some of the replicas are such, the others were polled at that time."""
    imported, polled = replica(id="file://chat-1"), replica(id="http://host:8000")

    assert short_parts(context_of(fleet([imported])))[2] == "imported 2026-03-02T11:42:05Z"
    assert short_parts(context_of(fleet([imported, polled])))[2] == "data as of 2026-03-02T11:42:05Z"
    assert short_parts(context_of(fleet([])))[2] == "data as of 2026-03-02T11:42:05Z"
