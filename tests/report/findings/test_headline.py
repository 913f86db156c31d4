"""The headline says how the fleet is, in a sentence that is true."""

from collections.abc import Sequence
from typing import Any

import pytest

from dashboard.analysis.assembly import Fleet, empty_fleet
from dashboard.fleet import ReplicaState
from dashboard.report.findings import headline
from dashboard.report.findings.headline import FleetSummary
from dashboard.report.pools.sharing import sharing_verdicts, suppressed_pools
from dashboard.rules.findings import Finding, Inspection, OutcomeKind, Rollout, Tally
from dashboard.views.overview import more_words
from tests.builders import NOW, alike, document, down, fleet, replica, story
from tests.findings_builder import evidence, finding, outcome, with_findings

BAD, ODD, NOTED = Tally(critical=2), Tally(warning=1), Tally(info=3)


def standing(**counts: Any) -> FleetSummary:
    """Ten replicas in two pools, all fine, but for what is given."""
    by_pool = counts.get("by_pool", {})
    found = Tally(*(sum(getattr(each, name) for each in by_pool.values()) for name in Tally._fields))
    fine = {"replicas": 10, "down": 0, "partial": 0, "pools": 2, "read": 2, "split": (), "unread": ()}
    return FleetSummary(**{**fine, "found": found, "by_pool": by_pool, **counts})


@pytest.mark.parametrize(
    ("counts", "title"),
    [
        ({}, "Nothing needs attention"),
        ({"pools": 0, "read": 0}, "Nothing can be compared yet"),
        ({"pools": 0, "read": 0, "down": 1}, "Nothing can be compared yet; 1 replica is down"),
        ({"by_pool": {"a": NOTED}}, "Nothing needs attention"),
        ({"by_pool": {"a": BAD, "b": ODD}}, "1 pool has critical findings"),
        ({"by_pool": {"a": BAD, "b": BAD}, "down": 1}, "2 pools have critical findings; 1 replica is down"),
        ({"by_pool": {"a": ODD, "b": ODD}}, "Nothing critical, 2 warnings in 2 pools"),
        ({"found": Tally(warning=1)}, "Nothing critical, 1 warning"),
        ({"down": 3}, "Nothing needs attention; 3 replicas are down"),
        ({"down": 10}, "No replica answers"),
        ({"read": 0}, "Nothing could be judged"),
        (
            {"read": 0, "by_pool": {"a": ODD}, "down": 1},
            "Nothing could be compared, 1 warning in 1 pool; 1 replica is down",
        ),
        ({"by_pool": dict.fromkeys("abcdefghijklmn", BAD)}, "14 pools have critical findings"),
    ],
)
def test_the_title_names_what_is_wrong_first(counts: dict[str, Any], title: str) -> None:
    """Critical before warnings; what is only for information asks for no attention."""
    assert headline.title(standing(**counts)) == title


def test_the_second_sentence_says_what_was_found_and_what_follows() -> None:
    """Counts, then prefixes that cannot be shared, then a rollout; each pool by name, few of them."""
    now = standing(by_pool={"a": BAD, "b": ODD})
    rollout = Rollout("b", "0.31.0", "0.32.0", ("x", "y"), 6, NOW, NOW)

    assert headline.more(now, ["a"], Inspection(rollouts={"b": rollout})) == (
        "2 critical, 1 warning. In a, not all replicas can share prefixes. "
        "b is moving from 0.31.0 to 0.32.0: 2 of 6 are there."
    )
    assert "In a, b, c and 2 more pools, not all replicas" in headline.more(now, list("abcde"), Inspection())
    assert "No replica told which model" in headline.more(standing(pools=0, read=0), [], Inspection())
    assert "In a, b, c and 1 more pool, not all replicas" in headline.more(now, list("abcd"), Inspection())


def test_every_rollout_is_named_and_of_many_the_rest_is_counted() -> None:
    """A pool that moves and is not named would look as if it stood still."""
    known = {name: Rollout(name, "0.31.0", "0.32.0", ("x",), 4, NOW, NOW) for name in "abcde"}

    def said(names: str) -> str:
        return headline.more(standing(), [], Inspection(rollouts={name: known[name] for name in names}))

    assert said("ab") == "a is moving from 0.31.0 to 0.32.0: 1 of 4 are there; b from 0.31.0 to 0.32.0: 1 of 4."
    assert said("abc").endswith("; c from 0.31.0 to 0.32.0: 1 of 4.")
    assert said("abcd").endswith("; c from 0.31.0 to 0.32.0: 1 of 4; 1 more pool is moving too.")
    assert said("abcde").endswith("; 2 more pools are moving too.")


def test_where_sharing_is_doubtful_is_said_beside_where_it_is_certain_that_not_all_can() -> None:
    """One sentence on all pools; alone, a doubt is no headline."""
    said = headline.more(standing(), ["a"], Inspection(), doubtful=["b", "c", "d", "e"])

    assert said == "In a, not all replicas can share prefixes; in b, c, d and 1 more pool it is doubtful."
    assert headline.more(standing(), [], Inspection(), doubtful=["b"]) == "No finding."


def test_where_the_reason_is_suppressed_the_sentence_says_so() -> None:
    """A pool that is named there and shows no critical finding is not left unexplained."""

    def found(pool: str, *, path: str = "cache_config.block_size") -> Finding:
        return finding(empty_fleet("prod"), (), pools=(pool,), evidence=(evidence(path),))

    def said(unshared: str, *, active: Sequence[Finding] = (), suppressed: str = "b", doubtful: str = "") -> str:
        known = Inspection(findings=tuple(active), suppressed=tuple(map(found, suppressed)))
        pools = suppressed_pools(known)
        return headline.more(standing(), list(unshared), known, doubtful=list(doubtful), suppressed=pools)

    assert said("ab") == "In a and b (suppressed), not all replicas can share prefixes."
    assert "In a and b, not" in said("ab", active=[found("b")])
    assert "In a and b (suppressed), not" in said("ab", active=[found("b", path="version")])
    assert "In a and b, not" in said("ab", suppressed="c")
    assert "; in b (suppressed) it is doubtful." in said("a", doubtful="b")
    assert "In a, b, c and 2 more pools (1 suppressed), not" in said("abcde", suppressed="e")


def test_the_simulated_fleet_is_told_of_both_its_rollouts(demo_fleet: Fleet) -> None:
    said = more_words(demo_fleet, headline.standing(demo_fleet), sharing_verdicts(demo_fleet))

    assert "gemma-27b (suppressed), not all replicas can share prefixes; in qwen3-8b it is doubtful." in said
    assert said.endswith(
        "gemma-27b is moving from 0.32.0 to 0.32.1: 1 of 7 are there; qwen3-8b from 0.20.2 to 0.32.0: 4 of 6."
    )


def test_a_calm_fleet_is_not_praised_for_what_was_not_read() -> None:
    """Unknown is not good: what was not read is said not to count."""
    told = document()
    missing = fleet([*alike("chat", 3, told), down("chat-9"), down("other-1", pool="other")], [told])
    now = headline.standing(missing)

    assert (now.pools, now.read) == (2, 1)
    assert headline.more(standing(), [], Inspection()) == "No finding."
    assert headline.more(standing(found=Tally(unknown=1)), [], Inspection()) == "No finding in what was read."
    assert headline.calm(now, missing)[-1] == "What was not read is not counted."


def test_a_fleet_that_tells_no_settings_is_said_to_be_unjudged_and_why() -> None:
    """All answer, but nothing was compared: also beside what else was found."""
    silent = fleet([replica(f"chat-{number}") for number in range(4)])
    now = headline.standing(silent)
    why = "No replica in any pool tells its settings, so no rule could compare them."

    assert headline.title(now) == "Nothing could be judged"
    assert headline.more(now, [], silent.inspection) == why
    assert headline.more(standing(read=0, by_pool={"a": ODD}), [], Inspection()) == f"1 warning. {why}"


def test_what_differs_without_a_rule_is_said_where_no_rule_found_anything() -> None:
    told = [document({"model_config.seed": number}) for number in (1, 2)]
    other = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(told)], told)

    assert "1 setting differs that no rule is about: see Compare." in headline.calm(headline.standing(other), other)


def test_calm_rests_on_the_rules_that_were_judged() -> None:
    """What was skipped or does not apply found nothing because it did not look."""
    kinds = (OutcomeKind.PASSED, OutcomeKind.PASSED, OutcomeKind.SKIPPED, OutcomeKind.NOT_APPLICABLE)
    told = with_findings(
        story(), outcomes=tuple(outcome(f"XX-{number}", kind=kind) for number, kind in enumerate(kinds))
    )

    assert headline.calm(headline.standing(told), told)[0] == "2 rules found nothing."


def test_replicas_are_counted_by_state_and_those_down_come_first() -> None:
    """A partial replica answered; a replica that is down did not."""
    now = headline.standing(story())

    assert (now.replicas, now.down, now.partial, now.pools) == (40, 1, 1, 5)
    assert now.split == ("chat-70b", "embed-8b")
    assert [each.state for each in now.unread] == [ReplicaState.DOWN, ReplicaState.PARTIAL]


def test_when_nothing_answers_nothing_else_is_claimed() -> None:
    """Values that were last read say nothing of now."""
    now = headline.standing(fleet([replica("chat-1", state=ReplicaState.DOWN, fresh=False)]))

    assert headline.more(now, ["chat"], Inspection()) == "Every replica was asked, and none gave a usable answer."
