"""Who changes what rules find raises RULE_SET, which reports and snapshots print to be told apart."""

from pathlib import Path

from dashboard.rules.catalogue import RULE_SET
from tests.tools.rule_set import COMMITTED, code_of, digest

HOW = "raise RULE_SET in dashboard/rules/catalogue.py, then run python -m tests.tools.rule_set"


def test_the_rule_set_was_raised_with_the_last_change_of_the_rules() -> None:
    committed_set, committed_digest = COMMITTED.read_text().split()

    if digest() != committed_digest:
        assert int(committed_set) < RULE_SET, f"the rules changed: {HOW}"
    assert (int(committed_set), committed_digest) == (RULE_SET, digest()), f"the digest is an older one: {HOW}"


def test_the_digest_sees_a_change_of_code_and_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("LIMIT = 1\n")
    before = digest(tmp_path)

    (tmp_path / "a.py").write_text("LIMIT = 2\n")
    assert digest(tmp_path) != before
    (tmp_path / "a.py").write_text("LIMIT = 1\n")
    (tmp_path / "b.py").write_text("")
    assert digest(tmp_path) != before


def test_what_a_rule_says_of_itself_and_how_it_is_laid_out_may_change() -> None:
    before = 'RULE_SET = 1\ndef rule(x):\n    """It looks."""\n    return x\n'
    after = 'RULE_SET = 2\n# why\ndef rule(\n    x,\n):\n    """It looks again."""\n    return x  # it\n'

    assert code_of(before) == code_of(after)
