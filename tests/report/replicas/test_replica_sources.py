"""The best answer of a replica is the one that is trusted most."""

from dashboard.fleet import Source
from dashboard.report.replicas.sources import SOURCES, best_answer


def test_the_most_trusted_answer_is_named_in_whatever_order_they_came() -> None:
    assert best_answer((Source.METRICS, Source.PROVIDER, Source.SERVER_INFO)) == "the provider"
    assert best_answer((Source.VERSION, Source.METRICS)) == "/metrics"


def test_without_an_answer_there_is_no_best_one() -> None:
    assert best_answer(()) is None


def test_every_source_has_its_words() -> None:
    assert set(SOURCES) == set(Source)
