"""Every term is explained in one sentence."""

import pytest

from dashboard.fleet import Basis
from dashboard.views.blocks import Paragraph
from dashboard.views.glossary import ALL_TERMS, TERMS, glossary


@pytest.mark.parametrize(("term", "sentence"), TERMS.items())
def test_a_term_is_one_sentence_that_does_not_begin_with_itself(term: str, sentence: str) -> None:
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert len(sentence) <= 120
    assert not sentence.lower().startswith(term.lower())


def test_an_export_explains_the_same_terms() -> None:
    paragraphs = [block for block in glossary(ALL_TERMS).blocks if isinstance(block, Paragraph)]
    sentences = [block.line[1].text for block in paragraphs]

    assert sentences == [TERMS[term] for term in ALL_TERMS]


def test_every_basis_of_a_capacity_is_explained() -> None:
    assert {str(each) for each in Basis} <= TERMS.keys()
