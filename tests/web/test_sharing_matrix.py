"""The small table of cohorts that says who can share prefixes with whom, to the eye and to the ear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from dashboard.compare import sharing_verdict
from dashboard.compare.sharing import MOST_COHORTS
from dashboard.report.pools.sharing import MOST_GROUPS
from dashboard.web.sharing_matrix import sharing_matrix
from tests.builders import HOSTILE, SAME_KV, document, fleet, hashing, replica

Held = Sequence[str | None]  # of one cohort, the digest of each replica


def drawn(*cohorts: Held, algorithm: Sequence[str] = ()) -> str:
    """Draw a pool of these cohorts, the largest first."""
    hashed = [*algorithm, *["sha256_cbor"] * len(cohorts)]
    told = [
        document({**SAME_KV, "model_config.seed": number, "cache_config.prefix_caching_hash_algo": hashed[number]})
        for number in range(len(cohorts))
    ]
    members = [
        replica(f"{HOSTILE}{number}-{place}", document=told[number], engines=hashing(digest))
        for number, held in enumerate(cohorts)
        for place, digest in enumerate(held)
    ]
    built = fleet(members, told)
    verdict = sharing_verdict(built.pools[0], {each.id: each for each in members}, built.documents)
    return sharing_matrix(verdict, "critical")


def cells(html: str) -> list[str]:
    """The tooltips of all cells, row by row."""
    return [unescape(title) for title in re.findall(r'<td class="[a-z ]+" title="([^"]*)"', html)]


def listed(html: str) -> list[str]:
    """The entries of the list."""
    return re.findall(r"<li>(.*?)</li>", html)


def test_every_cell_says_who_and_how_it_is_known_and_why() -> None:
    """Mutual: the table reads the same along a row and down a column."""
    assert cells(drawn(["a", "a", "a"], ["b"])) == [
        "within A: yes; measured, equal block hashes",
        "A with B: no; measured, hash seeds differ",
        "B with A: no; measured, hash seeds differ",
        "within B: one replica",
    ]


def test_a_cell_has_a_glyph_for_the_eye_and_word_and_reason_for_the_ear() -> None:
    html = drawn(["a", "a", "a"], ["b"])

    assert '<span class="glyph differs" aria-hidden="true">≠</span><span class="said"></span> no' in html
    assert '<span class="said">: measured, hash seeds differ</span></td>' in html


def test_it_is_a_table_with_a_caption_and_scopes() -> None:
    html = drawn(["a", "a", "a"], ["b"])

    assert '<caption class="said">Which cohorts can share prefixes</caption>' in html
    assert html.count('<th scope="col">') == 3
    assert html.count('<th scope="row">') == 2
    assert '<span class="said">3 replicas</span>' in html


def test_who_does_not_share_within_itself_has_the_tint_of_the_verdict() -> None:
    """Equal settings, other hashes: what no other table shows."""
    html = drawn(["a", "b", "c"])

    assert '<div class="scroll sharing critical">' in html
    assert '<td class="no own" title="within A: no; measured, every engine process uses a random hash seed">' in html
    assert 'class="partly own"' in drawn(["a", "a", "b"])


def test_what_is_derived_is_marked_beside_what_is_measured() -> None:
    """Where all is of one kind, the sentence above says of which."""
    mixed = drawn(["a", "a", "a", "a"], ["b", "b"], [None], algorithm=["sha256", "sha256", "xxhash"])
    derived = drawn([None, None], [None], algorithm=["sha256", "xxhash"])

    assert 'no <span class="mute">(derived)</span>' in mixed
    assert "A with C: no; derived from settings, prefix_caching_hash_algo differs" in cells(mixed)
    assert "derived)</span>" not in derived
    assert "A with B: no; derived from settings, prefix_caching_hash_algo differs" in cells(derived)


def test_what_is_not_known_is_neither_measured_nor_derived() -> None:
    assert cells(drawn(["a", "a"], [None]))[1] == ("A with B: unknown; block hashes not reported, no setting differs")


def test_one_cohort_that_shares_or_does_not_tell_needs_no_table() -> None:
    assert drawn(["a", "a"]) == ""
    assert drawn([None, None]) == ""


def test_where_nobody_tells_and_no_setting_contradicts_there_is_no_table() -> None:
    """Many cells of `not known` say no more than the sentence above."""
    assert drawn([None, None], [None]) == ""


def test_what_the_table_is_about_stands_beside_it() -> None:
    """Sharing needs more than equal tokens where requests bring more than tokens."""
    html = drawn(["a", "a", "a"], ["b"])

    assert html.endswith("For identical prompts without LoRA, multimodal input or cache salt.</p></div>")


def test_of_very_many_cohorts_the_groups_that_share_are_listed() -> None:
    """Thirteen and more are no longer read as a table."""
    few: list[Held] = [["b"]] * (MOST_COHORTS - 5)
    part: Held = ["a", *[None] * 15]
    html = drawn(["a"] * 20, ["b"] * 19, ["a"] * 18, [None] * 17, part, ["x", "y", "y"], ["z", "z"], *few)

    assert "<table" not in html
    assert listed(html) == [
        "A and C hash alike",
        "B, H, I, J, K, L, M and N hash alike",
        "G shares with no other whole cohort",
        "not all replicas of F share with each other",
        "block hashes of D are not reported",
        "block hashes of E are not reported by all replicas",
    ]


def test_of_very_many_groups_the_rest_is_counted() -> None:
    pairs: list[Held] = [[str(number // 2)] for number in range(2 * (MOST_GROUPS + 2))]

    assert "2 more groups of cohorts that hash alike" in listed(drawn(*pairs))


def test_very_many_cohorts_that_tell_nothing_have_no_list() -> None:
    cohorts: list[Held] = [[None]] * (MOST_COHORTS + 1)

    assert drawn(*cohorts) == ""


def test_no_foreign_text_comes_into_it() -> None:
    """Names of replicas are an attack here; letters, counts and our own reasons are all it holds."""
    assert "script" not in drawn(["a", "b", HOSTILE], [HOSTILE])
