"""Overview: the number, top findings, the map, pools with problems first, incomplete data."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard import service
from dashboard.analysis.assembly import Fleet, empty_fleet, inspected
from dashboard.config import Options
from dashboard.fleet import Basis
from dashboard.rules.policy import Policy, RuleChange
from dashboard.views.blocks import Entries
from dashboard.views.plan import CHANGES
from dashboard.web.share import OFFERED
from tests.builders import SAME_KV, alike, document, fleet, hashing, replica, story
from tests.page_runner import html, open_page, visit
from tests.used import with_traffic

DOCUMENT = document()
NO_DEV_MODE = {"CO-14": RuleChange(enabled=False)}


def test_equal_settings_with_different_block_hashes_are_a_problem() -> None:
    settings, same = document({"cache_config.prefix_caching_hash_algo": "xxhash"}), document(SAME_KV)
    split = [replica(f"chat-{index}", document=settings, engines=hashing(f"root {index}")) for index in range(2)]
    shared = alike("calm", 4, same, engines=hashing("one"))
    shown = html(open_page(fleet([*shared, *split], [settings, same])))

    assert "no two replicas share" in shown
    assert "2 replicas in 1 pool do not share." in shown
    assert '<h1><b data-testid="number">4 of 6</b> replicas (67%) share prefixes with their pool</h1>' in shown
    assert re.search(r"calm</a>.*?all 4 share", shown, re.DOTALL)
    assert "no difference" not in shown
    assert shown.index('href="compare?pool=chat">') < shown.index('href="compare?pool=calm">')


def test_sources_that_list_no_replica_are_named_with_what_they_asked_for(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text("[]")
    listed = {"files": [str(tmp_path / "none.json"), str(tmp_path / "lost<b>.json")]}
    collector = service.Collector(Options.model_validate({"file_sd": [listed]}))
    asyncio.run(collector._refresh(0.0))
    service.put(collector.fleet)
    service._current.collector = collector
    shown = html(visit("findings"))

    assert "<h2>No replicas found</h2>" in shown
    assert f"{tmp_path}/none.json: lists no replica" in shown
    assert "lost&lt;b&gt;.json: No such file or directory" in shown
    assert "configured" not in shown


def test_many_pools_are_folded_after_the_worst() -> None:
    odd = document({"cache_config.block_size": 32})
    members = [replica(f"r{index}", pool=f"pool-{index:02}", document=DOCUMENT) for index in range(20)]
    members += [replica(f"odd-{index}", pool="pool-19", document=odd) for index in range(3)]
    shown = html(open_page(fleet(members, [DOCUMENT, odd])))
    (folded,) = re.findall(r"<summary>and 5 more</summary>(.*?)</details>", shown, re.DOTALL)

    assert "pool-19" not in folded
    assert "pool-18" in folded


@pytest.mark.parametrize(
    ("opened", "present", "absent"),
    [
        pytest.param(
            empty_fleet("prod-eu"),
            ("Waiting for the first poll", "waiting for the first poll"),
            ("Replicas",),
            id="before the first poll",
        ),
        pytest.param(fleet(), ("No replicas configured", "fleet.yaml"), (), id="without targets"),
        pytest.param(
            fleet([replica(f"chat-{index}", pool=None) for index in range(2)]),
            ("<h1>No pools to compare</h1>", "no replica reports a model", "labels: {pool: chat, name: chat-2}"),
            ("found nothing",),
            id="no model reported: a label assigns pools",
        ),
        pytest.param(
            fleet([replica("chat-1"), replica("chat-2")]),
            (
                "<h1>No rule was evaluated</h1>",
                "No replica of this fleet reports its settings",
                'href="replicas"',
            ),
            ('class="notice good"',),
            id="no settings reported",
        ),
    ],
)
def test_overview_of_an_unusual_fleet(opened: Fleet, present: Sequence[str], absent: Sequence[str]) -> None:
    shown = html(open_page(opened))

    assert [text for text in present if text not in shown] == []
    assert [text for text in absent if text in shown] == []


def test_unknown_capacity_is_not_zero() -> None:
    shown = html(open_page(fleet([replica("chat-1", document=DOCUMENT, engines=(), devices=())], [DOCUMENT])))

    assert re.search(r'<div class="label">KV cache</div>\s*<div class="figure">unknown</div>', shown)
    assert str(Basis.REPORTED) not in shown


def test_the_head_of_the_table_of_pools_sorts_it_and_the_url_has_the_sort() -> None:
    usual, sorted_down = html(open_page(story())), html(open_page(story(), sort="-pool"))

    assert 'href="./?sort=pool"' in usual
    assert "aria-sort" not in usual
    assert 'aria-sort="descending"' in sorted_down
    names = re.findall(r'<th scope="row"[^>]*><a href="compare\?pool=([^"&]+)', sorted_down)
    assert names == sorted(names, reverse=True)
    assert len(names) == 5
    assert "sort=unknown" in html(open_page(story(), sort="unknown"))


def test_a_healthy_fleet_says_so_in_one_sentence() -> None:
    same = document(SAME_KV)
    healthy = replace(fleet(alike("calm", 3, same, engines=hashing("one")), [same]), policy=Policy(rules=NO_DEV_MODE))
    at = healthy.polled_at
    assert at is not None
    shown = html(open_page(inspected(healthy, at)))

    assert re.search(r'<h1><span class="glyph good"[^>]*>✓</span> Fleet is consistent: 3 replicas, 1 pool</h1>', shown)
    assert "All replicas share prefixes with their pool." in shown


def test_a_fleet_that_reports_no_hashes_has_no_number() -> None:
    shown = html(open_page(fleet([replica(f"chat-{index}", document=DOCUMENT) for index in range(2)], [DOCUMENT])))

    assert "replicas (" not in shown
    assert "unknown for 2" in shown


def test_a_cause_that_also_changes_other_pools_names_their_replicas_in_the_scope_of_one(demo_fleet: Fleet) -> None:
    app = open_page(demo_fleet, pool="deepseek-v3/decode")
    (changes,) = (each for each in app.session_state[OFFERED]().parts if each.anchor == CHANGES)
    lists = [block.items for part in changes.parts for block in part.blocks if isinstance(block, Entries)]
    names = [item.snippets[0].split() for items in lists for item in items if item.fold == "Replica names"]

    assert any({"deepseek-v3-decode-0", "deepseek-v3-prefill-1"} <= set(each) for each in names)
    assert "<h1>" in html(app)
    for pool in demo_fleet.pools:
        assert ">Fix plan" in html(open_page(demo_fleet, pool=pool.name))


def test_the_order_of_the_plan_and_the_colouring_of_the_map_are_in_the_url(demo_fleet: Fleet) -> None:
    used = with_traffic(demo_fleet, {"chat-70b-11": 0.01, "chat-70b-04": 0.3}, 0.6)
    usual, chosen = html(open_page(used)), html(open_page(used, order="effect", map="hit-rate"))

    assert 'href="./?map=hit-rate"' in usual
    assert 'href="./?order=effect"' in usual
    assert usual.index("--block-size 16") < usual.index("--prefix-caching-hash-algo sha256_cbor")
    assert chosen.index("--prefix-caching-hash-algo sha256_cbor") < chosen.index("--block-size 16")
    assert 'class="cell rate-1"' not in usual
    assert 'class="cell rate-1"' in chosen
    assert 'href="./?order=effect"' in chosen  # to the other colouring
    assert 'href="./?sort=pool&amp;' not in usual
    assert "order=unknown" in html(open_page(used, order="unknown"))


def test_the_head_has_the_hit_rate_and_its_link_to_the_map(demo_fleet: Fleet) -> None:
    used = with_traffic(demo_fleet, {"chat-70b-04": 0.04}, 0.62)
    shown, of_pool = html(open_page(used)), html(open_page(used, pool="chat-70b"))

    assert re.search(
        r'href="./\?map=hit-rate">\s*<div class="label">Prefix hit rate</div>\s*<div class="figure">60', shown
    )
    assert re.search(r'<div class="label">Prefix hit rate</div>\s*<div class="figure">58', of_pool)
    assert re.search(r"avoidable \(estimate\)</div>\s*<div class=\"figure\">23.2", of_pool)
