"""Help has a topic for every page of the navigation, and begins with the page that it is asked for."""

from dashboard.views import pages
from dashboard.views.glossary import TERMS
from dashboard.views.help import TOPICS, help_report
from tests.builders import story


def test_every_page_of_the_navigation_has_a_topic() -> None:
    assert TOPICS.keys() == pages.TITLES.keys()


def test_the_page_that_help_is_asked_for_is_first_and_an_unknown_one_is_ignored() -> None:
    assert help_report(story(), pages.CAPACITY).parts[0].title == "Capacity"
    assert help_report(story(), "nonsense").parts[0].title == "Overview"


def test_every_term_is_explained() -> None:
    (table,) = (each for each in help_report(story()).parts[-1].blocks if getattr(each, "name", "") == "terms")
    assert [row[0].text for row in table.rows] == list(TERMS)  # type: ignore[union-attr]
