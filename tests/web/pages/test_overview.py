"""Overview says how the fleet is, what is wrong first."""

import re
from dataclasses import replace

from dashboard.analysis.assembly import empty_fleet
from dashboard.fleet import Basis, FailureKind, ReplicaState, Source
from dashboard.rules.domain import Router, Store
from dashboard.rules.findings import Inspection
from tests.builders import HOSTILE, SAME_KV, alike, devices, document, down, fleet, hashing, hostile, replica, story
from tests.page_runner import html, open_page


def test_the_headline_says_what_is_wrong() -> None:
    """Pools with critical findings, then replicas that are down; below it what that means."""
    shown = html(open_page(story()))

    assert "critical findings; 1 replica is down</h1>" in shown
    assert "Not all replicas share prefixes in chat-70b; possibly also in embed-8b." in shown


def test_the_header_says_how_many_answered_and_how_old_that_is() -> None:
    """39 of 40 answered, data as of a time, and its age in words."""
    shown = html(open_page(story()))

    assert '<b>39 of 40</b> <span class="word">answered</span>' in shown
    assert ">11:42:05 UTC</b>" in shown
    assert "8 s ago" in shown


def test_every_pool_is_a_row_with_its_cohorts_and_what_is_wrong_comes_first() -> None:
    """A pool whose replicas cannot share prefixes stands above one in an upgrade, and that above calm ones."""
    shown = html(open_page(story()))

    places = [shown.index(f'href="compare?pool={name}">{name}<') for name in ("chat-70b", "embed-8b", "gemma-27b")]
    assert places == sorted(places)
    assert ">A ×15</a>" in shown
    assert "B and C differ from A" in shown
    assert "0.31.0 → 0.32.0" in shown


def test_a_pool_with_equal_settings_and_other_block_hashes_is_not_said_to_have_no_difference() -> None:
    """It stands above pools that share, and the headline names it."""
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    apart = [
        replica(f"chat-{index}", pool="chat", document=told, engines=hashing(f"root {index}")) for index in range(2)
    ]
    same = document(SAME_KV)
    alike_ones = alike("calm", 4, same, engines=hashing("one"))
    shown = html(open_page(fleet([*alike_ones, *apart], [told, same])))

    assert "A: hashes differ within" in shown
    assert "shared" in shown
    assert "no difference" not in shown
    assert "Not all replicas share prefixes in chat." in shown
    assert shown.index('href="compare?pool=chat">') < shown.index('href="compare?pool=calm">')


def test_capacity_that_is_only_an_upper_bound_says_so() -> None:
    """One assumed pool makes the sum an upper bound, and engines that tell nothing are counted apart."""
    shown = html(open_page(story()))

    assert "KV cache, upper bound" in shown
    assert "≤\N{NO-BREAK SPACE}34.4\N{NO-BREAK SPACE}M" in shown
    assert "1 rank unknown" in shown


def test_a_finding_is_a_sentence_with_its_values_and_leads_to_its_details() -> None:
    """The reader sees who differs in what from whom, what it breaks, and one click shows the evidence."""
    shown = html(open_page(story()))

    assert "<code>block_size</code> is <code>32</code>; 16 of 17 replicas use <code>16</code>." in shown
    assert 'href="findings?finding=' in shown
    assert 'href="replica?replica=http%3A%2F%2Fchat-70b-17%3A8000"' in shown


def test_what_runs_on_cpus_is_not_said_to_have_gpus() -> None:
    shown = html(open_page(fleet([replica(devices=devices(2, "cpu"))])))

    assert "2 devices" in shown
    assert "2 GPUs" not in shown


def test_a_replica_that_could_not_be_read_stands_with_kind_and_sentence() -> None:
    """A timeout and a refused key are told apart, in words."""
    shown = html(open_page(story()))

    assert "down · timeout" in shown
    assert "No answer within 5 s." in shown
    assert re.search(r"Last read \S+Z", shown)
    assert "partial · no valid API key" in shown


def test_what_could_not_be_read_is_marked_as_unknown_whether_down_or_partial() -> None:
    """The same mark as in Review and in exports; a severity's mark stands for findings alone."""
    unread = html(open_page(story())).partition("Incomplete data")[2]

    assert re.findall(r'<li class="(\w+)">', unread) == ["unknown", "unknown"]
    assert re.findall(r'class="glyph (\w+)"', unread) == ["unknown", "unknown"]


def test_a_healthy_fleet_looks_calm() -> None:
    """Nothing critical or warning is drawn where everything agrees."""
    told = document()

    shown = html(open_page(fleet(alike("chat", 3, told, sources=(Source.METRICS,)), [told])))

    assert "<h1>No critical findings or warnings</h1>" in shown
    assert shown.count("No findings") == 2
    assert "No findings from " in shown
    assert 'class="glyph critical"' not in shown
    assert 'class="glyph warning"' not in shown
    assert "Incomplete data" not in shown


def test_pools_beyond_the_first_are_one_click_away() -> None:
    """A hundred pools do not push the lists out of sight, and the worst still stands first."""
    told = [document(), document({"cache_config.block_size": 32})]
    members = [replica(f"r{index}", pool=f"pool-{index:02}", document=told[0]) for index in range(20)]
    odd = [replica(f"odd-{index}", pool="pool-19", document=told[1]) for index in range(3)]
    app = open_page(fleet([*members, *odd], told))

    (hidden,) = re.findall(r"<summary>and 5 more</summary>(.*?)</details>", html(app), re.DOTALL)
    assert "pool-19" not in hidden
    assert "pool-18" in hidden


def test_before_the_first_poll_the_page_says_that_it_waits() -> None:
    """No figures are shown before there are any."""
    shown = html(open_page(empty_fleet("prod-eu")))

    assert "Waiting for the first poll" in shown
    assert "waiting for the first poll" in shown
    assert "Replicas" not in shown


def test_without_targets_the_page_says_how_to_begin() -> None:
    """The empty page shows what to write where."""
    shown = html(open_page(fleet()))

    assert "No replicas configured" in shown
    assert "fleet.yaml" in shown


def test_a_fleet_that_does_not_answer_says_so_and_why() -> None:
    """Down replicas without a pool still stand on the page, with their reasons."""
    shown = html(open_page(fleet([down("chat-1", pool=None), down("chat-2", pool=None, kind=FailureKind.DNS)])))

    assert "<h1>No replica answered</h1>" in shown
    assert "down · connection refused" in shown
    assert "down · name not found" in shown


def test_a_fleet_of_which_nobody_told_a_model_is_not_called_calm_and_says_what_to_do() -> None:
    """Nothing was compared, which is not good news: a label in fleet.yaml mends it."""
    shown = html(open_page(fleet([replica(f"chat-{index}", pool=None) for index in range(2)])))

    assert "<h1>No pools to compare</h1>" in shown
    assert "no replica reports a model" in shown
    assert "labels: {pool: chat}" in shown
    assert "found nothing" not in shown


def test_a_fleet_that_answers_and_tells_no_settings_is_not_called_calm_and_says_what_to_do() -> None:
    """Nothing was judged: that nothing was found means nothing."""
    shown = html(open_page(fleet([replica("chat-1"), replica("chat-2")])))

    assert "<h1>No rule was evaluated</h1>" in shown
    assert "No replica of this fleet reports its settings" in shown
    assert 'href="replicas"' in shown
    assert 'class="notice good"' not in shown


def test_where_only_unread_replicas_were_found_no_list_of_one_line_is_drawn() -> None:
    """They have their own list, which is then all that stands below the pools."""
    shown = html(open_page(fleet([down("chat-1"), down("chat-2")])))

    assert "Incomplete data" in shown
    assert "Top findings" not in shown
    assert "No finding" not in shown


def test_what_was_not_read_whole_leads_to_the_page_that_lists_it() -> None:
    shown = html(open_page(story()))

    assert re.search(r'<a class="card" href="replicas">\s*<div class="label">Unknown<', shown)


def test_replicas_with_the_same_failure_are_one_entry() -> None:
    """A hundred dead replicas do not push everything else away."""
    shown = html(open_page(fleet([down(f"chat-{index}", pool=None) for index in range(100)])))

    assert shown.count('<li class="unknown">') == 1
    assert "88 more" in shown
    assert ">100 replicas</div>" in shown


def test_a_replica_that_is_only_partly_read_needs_no_failure_to_be_explained() -> None:
    """Partial without a failed probe: the sentence says what is missing."""
    told = document()
    partial = replica("chat-1", document=told, state=ReplicaState.PARTIAL)

    shown = html(open_page(fleet([partial], [told])))

    assert "1 partial" in shown
    assert "its cache configuration could not be read" in shown


def test_capacity_that_nobody_tells_is_not_zero() -> None:
    """Unknown is not 0."""
    told = document()
    silent = replica("chat-1", document=told, engines=(), devices=())

    shown = html(open_page(fleet([silent], [told])))

    assert re.search(r'<div class="label">KV cache</div>\s*<div class="figure">not\sknown</div>', shown)
    assert str(Basis.REPORTED) not in shown


def test_hostile_names_stay_text() -> None:
    """Nothing that a server names becomes markup."""
    shown = html(open_page(hostile()))

    assert "<script>" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert HOSTILE not in shown


def test_a_pool_in_which_nothing_shares_prefixes_is_not_counted_in_the_headline() -> None:
    """fleet.yaml says that it has no router: its cell is quiet, and it stands below a pool with a reason to look."""
    told = document()
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"root {index}")) for index in range(2)]
    apart = fleet(members, [told])
    routed = apart.inspection.domains["chat"]
    lone = replace(routed, router=Router.NONE, kv_store=Store.NONE)
    shown = html(open_page(replace(apart, inspection=Inspection(domains={"chat": lone}))))

    assert "Not all replicas share prefixes" not in shown
    assert "not needed (A: hashes differ within)" in shown
    assert "Not all replicas share prefixes" in html(
        open_page(replace(apart, generation=apart.generation + 1, inspection=Inspection(domains={"chat": routed})))
    )
