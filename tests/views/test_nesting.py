"""One report inside another: nothing in it is called like anything beside it."""

from dashboard.views.blocks import Section
from dashboard.views.nesting import nested
from tests.builders import story
from tests.report.sample_reports import differences, ranks, replica_table
from tests.views.walking import files_of, parts_of


def test_anchors_and_names_of_files_have_the_prefix_at_every_depth() -> None:
    inner = Section("inner", "Inner", (ranks(), differences(story())))
    parts = nested([Section("outer", "Outer", (replica_table(1),), (inner,))], "since")

    assert [each.anchor for each in parts_of(parts)] == ["since-outer", "since-inner"]
    assert files_of(parts) == ["since-replicas", "since-ranks", "since-differences"]
