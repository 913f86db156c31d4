"""Help has a topic for every page of the navigation, the page that it is asked for first; a term is one sentence."""

import re
from pathlib import Path

import pytest

import dashboard.web
from dashboard.fleet import Basis
from dashboard.views import pages
from dashboard.views.help import KEYS, TERMS, TOPICS, help_report
from tests.builders import story


def test_every_page_has_a_topic_but_those_of_one_replica_and_of_help() -> None:
    assert pages.TITLES.keys() - TOPICS.keys() == {pages.HELP, pages.REPLICA_PAGE}


def test_the_page_that_help_is_asked_for_is_first_and_an_unknown_one_is_ignored() -> None:
    assert help_report(story(), pages.CAPACITY).parts[0].title == "Capacity"
    assert help_report(story(), "nonsense").parts[0].title == "Overview"


@pytest.mark.parametrize(("term", "sentence"), TERMS.items())
def test_a_term_is_one_sentence_that_does_not_begin_with_itself(term: str, sentence: str) -> None:
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert len(sentence) <= 120
    assert not sentence.lower().startswith(term.lower())


def test_every_basis_of_a_capacity_is_explained() -> None:
    assert {str(each) for each in Basis} <= TERMS.keys()


def test_every_key_that_a_script_reads_is_listed() -> None:
    scripts = "".join(each.read_text() for each in Path(dashboard.web.__file__).parent.glob("*.js"))
    listed = " ".join(map(" ".join, KEYS))

    for name in re.findall(r"\b(?:Arrow|Page|Home|End|Enter|Esc)", scripts):
        assert name in listed
