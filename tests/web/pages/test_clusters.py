"""Pages that are limited to a cluster, and the comparison across clusters."""

from pathlib import Path

import pytest

from dashboard import service
from dashboard.views import pages
from tests import builders
from tests.e2e.frozen_fleets import CLUSTERS, frozen
from tests.page_runner import found, html, open_page, show_with_snapshots, visit


@pytest.fixture(autouse=True)
def clusters(tmp_path: Path) -> None:
    show_with_snapshots(frozen(CLUSTERS), tmp_path)


@pytest.mark.parametrize("page", sorted(each or "overview" for each in pages.SCOPED | {pages.REVIEW} - {pages.CHANGES}))
def test_a_page_of_a_cluster_has_no_replica_and_no_pool_of_another(page: str) -> None:
    shown = html(visit(page, cluster="eu"))

    assert '<b title="eu">eu</b>' in shown
    assert "ap/chat-70b" not in shown
    assert "us-1" not in shown


def test_a_cluster_that_no_replica_has_is_named_with_the_way_to_all() -> None:
    shown = html(visit(cluster="mars"))

    assert "Cluster “mars” not found" in shown
    assert "Show all clusters" in shown


def test_the_header_says_what_the_other_clusters_have() -> None:
    assert "Other clusters:" in html(visit("findings", cluster="eu"))
    assert "Other clusters:" not in html(visit("findings"))


def test_status_is_that_of_the_whole_fleet() -> None:
    assert html(visit("status", cluster="eu")).count("12 of 12") == html(visit("status")).count("12 of 12")


def test_the_scope_offers_clusters_and_keeps_the_choices_of_the_page() -> None:
    answer = found(visit("capacity", measure="GiB", cluster="eu"), {"text": "", "number": 1, "isScope": True})
    urls = [(hit["name"], hit["url"]) for group in answer["groups"] for hit in group["hits"]]

    assert ("All clusters", "capacity?measure=GiB&cluster=&pool=") in urls
    assert ("us", "capacity?measure=GiB&cluster=us&pool=") in urls
    assert ("eu/chat-70b", "capacity?measure=GiB&cluster=eu&pool=eu%2Fchat-70b") in urls


def test_a_hit_of_another_cluster_leaves_the_scope() -> None:
    answer = found(visit("findings", cluster="eu"), {"text": "us/chat-70b", "number": 1})
    assert answer["groups"][0]["hits"][0]["url"] == "compare?pool=us%2Fchat-70b&cluster="


def test_a_snapshot_that_is_saved_on_a_page_of_a_cluster_has_the_whole_fleet() -> None:
    app = visit("review", cluster="eu")
    app.button(key="save_for_review").click().run()
    (stored,) = service.snapshots().all()

    assert len(service.open_snapshot(stored.id).replicas) == 12


def test_across_clusters_every_choice_of_the_url_is_used() -> None:
    shown = html(visit("compare", pool="chat-70b", across="cluster", reference="ap", search="block_size"))

    assert "chat-70b across clusters" in shown
    assert "cache_config.block_size" in shown
    assert "Ignored invalid" not in shown
    assert "Pool “nothing” not found" in html(visit("compare", pool="nothing", across="cluster"))


def test_a_fleet_without_clusters_compares_no_clusters() -> None:
    shown = html(open_page(builders.story()))
    assert "Differs between clusters" not in shown
    assert "All pools" in shown
