"""The head of a replica's page: how it stands, where it belongs, what is odd about it."""

import re
from datetime import timedelta

from dashboard.fleet import Contradiction, Failure, FailureKind, ReplicaState, Reply, Role, SettingValue, Source, State
from dashboard.report.replicas.differences import Apart
from dashboard.report.replicas.settings import ReadCoverage
from dashboard.rules.findings import Severity
from dashboard.web import markup
from dashboard.web.replica_head import cards, contradictions, head, notices
from tests.builders import HOSTILE, NOW, alike, document, down, engine, fleet, probe, replica, setting

USUAL = document()
WHOLE, NOTHING = ReadCoverage(97, 97, 97), ReadCoverage(0, 0, 97)


def test_the_head_says_in_a_sentence_how_the_replica_stands() -> None:
    partial = replica(state=ReplicaState.PARTIAL, failure=Failure(FailureKind.UNAUTHORIZED, "It wants a key."))
    assert "Up: it answers. " in head(replica(), WHOLE)
    assert "Down: Nothing listens there." in head(down(), None)
    assert "Read in part: It wants a key." in head(partial, WHOLE)
    assert "<code>http://chat-0:8000</code>" in head(replica(), WHOLE)


def test_the_head_says_how_much_of_its_pool_the_replica_tells() -> None:
    assert "Up: it answers. It tells 56 of the 524 settings that its pool tells." in head(
        replica(), ReadCoverage(56, 56, 524)
    )


def test_the_head_names_the_best_answer_that_was_had() -> None:
    told = head(replica(sources=(Source.METRICS, Source.PROVIDER)), WHOLE)
    assert "Up: it answers. Best answer: the provider.</p>" in told
    assert "Best answer" not in head(down(), None)


def test_the_head_leads_back_to_all_replicas() -> None:
    assert '<a href="replicas">All replicas</a>' in head(replica(), WHOLE)


def test_only_what_was_read_whole_is_called_good() -> None:
    """No difference among 31 settings says little of a pool that tells 524."""
    (pool,) = fleet(alike("chat", 3, USUAL), [USUAL]).pools
    member = replica("chat-01", document=USUAL)
    assert "glyph good" in cards(member, pool, (), WHOLE, NOW)
    little = cards(member, pool, (), ReadCoverage(31, 30, 524), NOW)
    assert "glyph good" not in little
    assert "of 30 settings compared" in little


def test_what_nobody_else_tells_is_not_compared() -> None:
    (pool,) = fleet([replica(document=USUAL)], [USUAL]).pools
    assert "no other replica tells its settings" in cards(
        replica(document=USUAL), pool, (), ReadCoverage(17, 0, 17), NOW
    )


def test_the_cards_say_where_it_belongs() -> None:
    (pool,) = fleet(alike("chat", 3, USUAL), [USUAL]).pools
    member = replica("chat-01", document=USUAL, role=Role.DECODE)
    told = cards(member, pool, (), WHOLE, NOW)
    assert 'href="compare?pool=chat"' in told
    assert 'decode · cohort <span class="letter c0">A</span> of 1' in told
    assert "of 97 settings compared" in told
    assert "started 2 d ago" in told
    assert "1.2 M" in told
    assert "8 s ago" in told


def test_differences_lead_to_compare_with_this_replica_as_reference() -> None:
    (pool,) = fleet(alike("chat", 3, USUAL), [USUAL]).pools
    member = replica("chat-01", document=USUAL)
    told = cards(member, pool, (Apart("cache_config.block_size", SettingValue("16", State.REPORTED)),), WHOLE, NOW)
    assert 'href="compare?pool=chat&amp;reference=http%3A%2F%2Fchat-01%3A8000"' in told
    assert "of 97 settings compared, <a" in told


def test_what_has_no_majority_is_no_difference_of_this_replica() -> None:
    """One against one: neither differs from its pool more than the other does."""
    (pool,) = fleet(alike("chat", 2, USUAL), [USUAL]).pools
    ties = (Apart("cache_config.block_size", None), Apart("model_config.seed", None))
    told = cards(replica("chat-01", document=USUAL), pool, ties, WHOLE, NOW)
    assert "of 97 settings compared; 2 have no majority, <a" in told
    assert "glyph differs" not in told
    assert "glyph good" not in told
    assert "; 1 has no majority" in cards(replica("chat-01", document=USUAL), pool, ties[:1], WHOLE, NOW)


def test_a_replica_that_answers_is_not_called_good_for_it() -> None:
    """Up is a word; the glyph is that of its worst finding, and there is none without one."""
    assert "<h1>chat-0</h1>" in head(replica("chat-0"), WHOLE)
    bad = head(replica(), WHOLE, Severity.CRITICAL)
    assert '<h1><span class="glyph critical"' in bad
    assert "critical finding:" in bad
    assert "glyph good" not in bad


def test_what_is_not_read_whole_has_the_mark_of_its_state_and_its_findings_have_their_own() -> None:
    """A state is no severity: what is down is as unknown as what is only read in part."""
    partial = replica(state=ReplicaState.PARTIAL)
    for told, kinds, said in (
        (head(down(), None, Severity.WARNING), ["unknown", "warning"], ["down:", "warning:"]),
        (head(partial, WHOLE, Severity.CRITICAL), ["unknown", "critical"], ["partial:", "critical finding:"]),
        (head(partial, WHOLE), ["unknown"], ["partial:"]),
    ):
        assert re.findall(r'class="glyph (\w+)"', told) == kinds
        assert re.findall(r'class="said">([^<]+)<', told) == said


def test_the_cards_of_what_was_never_read_say_so() -> None:
    told = cards(down(pool=None, started_at=None), None, (), NOTHING, NOW)
    for words in ("no reply tells its model", "its settings were never read", "start not known", "no engine is known"):
        assert words in told
    assert "no probe gave a reply" in told


def test_a_pool_that_was_never_read_has_no_cohort() -> None:
    (pool,) = fleet([down()]).pools
    assert "in no cohort" in cards(down(), pool, (), NOTHING, NOW)


def test_engines_that_are_not_known_are_counted() -> None:
    told = cards(replica(engines=(engine(), engine(None, dp_rank=1))), None, (), NOTHING, NOW)
    assert markup.parts("2 DP ranks · 368.0 GiB · 1 not known · reported") in told


def said(member: object) -> str:
    """All notices of a replica."""
    return "\n".join(notices(member, {"http://b:8000": "bee"}, NOW))  # type: ignore[arg-type]


def test_a_replica_without_oddities_has_no_notice() -> None:
    assert said(replica()) == ""


def test_old_values_are_called_old() -> None:
    assert "last read 14 min ago" in said(replica(fresh=False, observed_at=NOW - timedelta(minutes=14)))


def test_a_second_address_is_named_and_linked() -> None:
    told = said(replica("a", same_process=("http://b:8000",)))
    assert "One process behind two addresses." in told
    assert ">bee</a> answers with the same instance_id" in told
    assert "http://c:8000</a> answer with" in said(replica(same_process=("http://b:8000", "http://c:8000")))


def test_what_was_not_understood_is_named_and_counted() -> None:
    strange = tuple(f"kind {index}" for index in range(9))
    told = said(replica(probes=(probe(reply=Reply(Source.METRICS, not_understood=strange)),)))
    assert "9 parts of its answers were not understood" in told
    assert "<code>kind 5</code> and 3 more" in told
    one = said(replica(probes=(probe(reply=Reply(Source.METRICS, not_understood=("kind",))),)))
    assert "1 part of its answers was not understood" in one


def test_contradictions_show_both_values_and_who_says_them() -> None:
    both = Contradiction("cache_config.block_size", setting(16), setting(32, source=Source.METRICS))
    told = contradictions((both,))
    assert "Its sources contradict each other in 1 setting" in told
    for cell in ("<code>16</code>", "/server_info", "<code>32</code>", "/metrics"):
        assert cell in told
    assert told.index(">Kept</th>") < told.index(">Not kept</th>")
    assert told.index("<code>16</code>") < told.index("<code>32</code>")
    assert "Kept is what the more trusted source says." in told
    assert "3 more are not shown." in contradictions((both,) * 15)
    assert contradictions(()) == ""


def test_foreign_text_is_escaped() -> None:
    bad = replica(
        HOSTILE,
        pool=HOSTILE,
        version=HOSTILE,
        same_process=(HOSTILE,),
        probes=(probe(reply=Reply(Source.METRICS, not_understood=(HOSTILE,))),),
    )
    clash = Contradiction(HOSTILE, setting(HOSTILE), setting(HOSTILE))
    told = (
        head(bad, WHOLE)
        + cards(bad, None, (), NOTHING, NOW)
        + said(bad)
        + contradictions((clash,))
        + head(down(detail=HOSTILE), None)
    )
    assert "<img" not in told
    assert "<script" not in told
