"""Saving an accepted finding: the file keeps its entries and comments, and a wrong one is not touched."""

import threading
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.config.rules import add_suppression, load_suppressions, read_suppressions, suppression_yaml
from dashboard.errors import OptionsError
from dashboard.rules.findings import Suppression
from dashboard.store.writing import save_acceptance, undo_acceptance

AT = datetime(2026, 11, 23, 14, 2, tzinfo=UTC)
FILE = Path("accepted.yaml")


def entry(owner: str = "ann", pool: str | None = "chat") -> Suppression:
    return Suppression("RT-01", owner, "canary: larger blocks", date(2027, 1, 31), pool)


def owners(file: Path) -> list[str]:
    return [each.owner for each in load_suppressions(file)]


def test_the_first_entry_creates_the_file_with_author_and_time(tmp_path: Path) -> None:
    save_acceptance(tmp_path / "accepted.yaml", [replace(entry(), author="ann@example.com")], AT)

    (saved,) = load_suppressions(tmp_path / "accepted.yaml")
    assert (saved.rule, saved.pool, saved.owner, saved.until) == ("RT-01", "chat", "ann", date(2027, 1, 31))
    assert (saved.author, saved.created) == ("ann@example.com", "2026-11-23T14:02:00Z")
    assert (tmp_path / "accepted.yaml").stat().st_mode & 0o777 == 0o644


OLD = "{rule: CP-01, owner: bob, reason: small GPU, until: 2026-12-31}"


@pytest.mark.parametrize(
    "before",
    [
        f"# ours\nsuppress: # accepted\n  # the canary\n  - {OLD} # until the move\n",
        f"suppress:\n- {OLD}\n# more below",
        f"suppress:\r\n    - {OLD}\r\n",
        "# nothing yet\nsuppress: []\n",
        "suppress:\n# nothing yet\n",
        "# nothing at all",
    ],
)
def test_entries_and_comments_of_the_file_stay(tmp_path: Path, before: str) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_bytes(before.encode())
    known = owners(file)
    save_acceptance(file, [entry()], AT)

    assert owners(file) == [*known, "ann"]
    comments = [line.partition("#")[2].strip() for line in before.splitlines() if "#" in line]
    assert [line.partition("#")[2].strip() for line in file.read_text().splitlines() if "#" in line] == comments


@pytest.mark.parametrize(
    ("before", "mistake"),
    [
        ("suppress: [", "accepted.yaml:1: not YAML: did not find expected node content"),
        ("suppress: 3\n", "accepted.yaml:1: suppress: not a list; begin each entry with `- `"),
        ("- a\n", "accepted.yaml:1: not a mapping; write `suppress:` with a list of entries"),
        (f"suppress: [{OLD}]\n", "accepted.yaml:1: entries in brackets; write one entry per list item"),
        (f"{{suppress: [{OLD}]}}\n", "accepted.yaml:1: entries in brackets; write one entry per list item"),
        (f"suppress:\n- {OLD}\n...\n", "accepted.yaml:4: not YAML: did not find expected <document start>"),
        ("suppress:\nsuppress:\n", "accepted.yaml:2: suppress: duplicate of line 1; keep one"),
    ],
)
def test_a_wrong_file_is_reported_and_not_touched(tmp_path: Path, before: str, mistake: str) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_text(before)
    with pytest.raises(OptionsError) as refused:
        save_acceptance(file, [entry()], AT)

    assert str(refused.value).removeprefix(f"{tmp_path}/") == mistake
    assert file.read_text() == before


def test_a_read_only_file_and_an_equal_entry_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "accepted.yaml"
    save_acceptance(file, [entry()], AT)
    with pytest.raises(OptionsError, match=r"^accepted.yaml: already has an entry for this scope until 2027-01-31$"):
        save_acceptance(file, [entry("bob")], AT)

    file.chmod(0o444)
    with pytest.raises(OptionsError, match=r"^accepted.yaml: read-only; make it writable, or edit it$"):
        save_acceptance(file, [entry(pool=None)], AT)
    with pytest.raises(OptionsError, match=r"^accepted.yaml: No such file or directory; nothing was saved$"):
        save_acceptance(tmp_path / "missing" / "accepted.yaml", [entry()], AT)


def test_several_entries_are_saved_and_undone_together_or_not_at_all(tmp_path: Path) -> None:
    file, both = tmp_path / "accepted.yaml", [entry(pool="chat"), entry(pool="embed")]
    save_acceptance(file, both, AT)
    assert [each.pool for each in load_suppressions(file)] == ["chat", "embed"]

    with pytest.raises(OptionsError, match="already has an entry"):
        save_acceptance(file, [entry(pool="new"), *both], AT)
    with pytest.raises(OptionsError, match="no longer has this entry"):
        undo_acceptance(file, [*both, entry(pool="new")])
    assert [each.pool for each in load_suppressions(file)] == ["chat", "embed"]
    undo_acceptance(file, both)
    assert load_suppressions(file) == ()


def test_entries_that_are_saved_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "accepted.yaml"
    names = [f"pool-{number}" for number in range(8)]
    savers = [threading.Thread(target=save_acceptance, args=(file, [entry(name, name)], AT)) for name in names]
    for each in savers:
        each.start()
    for each in savers:
        each.join()

    assert sorted(owners(file)) == names


texts = st.text(min_size=1, max_size=40).map(str.strip).filter(lambda text: text.isprintable() and text)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_any_entries_are_read_as_they_were_added(given_entries: list[tuple[str, str]]) -> None:
    raw = b""
    for owner, pool in given_entries:
        raw = add_suppression(raw, FILE, suppression_yaml([entry(owner, pool)]))

    assert [(each.owner, each.pool) for each in read_suppressions(raw, FILE)] == given_entries
