"""The page of one replica shows all that is known of it, and how it is known."""

import re

from dashboard.fleet import Contradiction, Failure, FailureKind, Fingerprint, Reply, Source
from dashboard.rules.findings import Severity
from dashboard.web import replica_offer
from tests.builders import HOSTILE, alike, document, down, engine, fleet, hostile, probe, replica, setting, story
from tests.findings_builder import finding, with_findings
from tests.page_runner import html, open_page, rerun

DOCUMENT = document()
ODD = "http://chat-70b-17:8000"


def test_an_address_that_names_no_replica_leads_back() -> None:
    app = open_page(story(), "replica", replica="http://<b>gone</b>:8000")

    assert "There is no such replica" in html(app)
    assert "<code>http://&lt;b&gt;gone&lt;/b&gt;:8000</code>" in html(app)
    assert 'href="replicas"' in html(app)


def test_an_address_without_a_replica_leads_back() -> None:
    assert "No replica is named" in html(open_page(story(), "replica"))


def test_a_replica_shows_its_settings_those_that_differ_first() -> None:
    app = open_page(story(), "replica", replica=ODD)

    table = app.dataframe[0].value
    assert "chat-70b-17</h1>" in html(app)
    assert table["Most of its pool"].to_list()[0] == "≠ 16"
    assert len(table) == 17
    assert "17 of 17 settings." in html(app)


def test_where_nothing_differs_there_is_no_column_for_it() -> None:
    app = open_page(story(), "replica", replica="http://chat-70b-01:8000")

    assert "Most of its pool" not in app.dataframe[0].value.columns


def test_what_answers_and_has_a_critical_finding_does_not_look_fine() -> None:
    built = fleet([replica("bad", document=DOCUMENT)], [DOCUMENT])
    found = [finding(built, ["bad"], id=each, severity=each) for each in (Severity.WARNING, Severity.CRITICAL)]
    page = html(open_page(with_findings(built, *found), "replica", replica="http://bad:8000"))

    assert '<h1><span class="glyph critical"' in page
    assert "Up: it answers." in page


def test_settings_can_be_searched() -> None:
    app = open_page(story(), "replica", replica=ODD, setting="block_size")
    assert app.dataframe[0].value["Setting"].to_list() == ["block_size", "hash_block_size"]

    app.text_input(key="setting").set_value("no such thing")
    assert "Nothing matches; 17 settings are hidden." in html(rerun(app))


def test_a_search_among_replicas_is_none_among_settings() -> None:
    app = open_page(story(), "replica", replica=ODD, search="block_size")

    assert len(app.dataframe[0].value) == 17


def test_what_is_as_in_the_pool_is_called_the_same() -> None:
    app = open_page(story(), "replica", replica=ODD)

    assert set(app.dataframe[0].value["Most of its pool"].to_list()[5:]) == {"same"}


def test_what_the_rest_of_its_pool_tells_and_it_does_not_is_counted() -> None:
    poor = document({"cache_config.block_size": 16}, base={})
    one = replica("poor", document=poor)
    page = html(open_page(fleet([*alike("chat", 3, DOCUMENT), one], [DOCUMENT, poor]), "replica", replica=one.id))

    assert f"Up: it answers. It tells 1 of the {len(DOCUMENT.settings)} settings that its pool tells." in page
    assert "of 1 setting compared" in page


def test_the_open_tab_stands_in_the_url() -> None:
    app = open_page(story(), "replica", replica=ODD, tab="Probes")

    assert app.session_state["tab"] == "Probes"
    assert open_page(story(), "replica", replica=ODD, tab="no such tab").session_state["tab"] == "Settings"


def test_a_link_leads_back_to_all_replicas() -> None:
    assert '<a href="replicas">All replicas</a>' in html(open_page(story(), "replica", replica=ODD))


def test_one_section_and_only_what_differs_can_be_chosen() -> None:
    app = open_page(story(), "replica", replica=ODD, section="cache_config")
    app.toggle(key="show").set_value(True)
    rerun(app)

    assert app.dataframe[0].value["Setting"].to_list() == ["block_size", "gpu_memory_utilization"]


def test_a_selected_setting_shows_its_whole_value() -> None:
    app = open_page(story(), "replica", replica=ODD, setting="cudagraph_capture_sizes")
    app.session_state["settings"] = {"selection": {"rows": [], "columns": [], "cells": [(0, "Value")]}}
    rerun(app)

    assert app.code[0].value.startswith("[1, 2, 3, 4, 5,")
    assert "<code>compilation_config.cudagraph_capture_sizes</code>" in html(app)


def test_engines_devices_and_groups_are_shown() -> None:
    page = html(open_page(story(), "replica", replica=ODD))

    assert "<h2>Engines</h2>" in page
    assert page.count("NVIDIA H100 80GB HBM3") == 4
    assert "No reply tells its KV cache groups" in page


def test_identity_and_labels_are_shown() -> None:
    one = replica(identity={"instance_id": setting("abc")}, labels={"zone": "eu"})
    app = open_page(fleet([one]), "replica", replica=one.id)

    assert "<code>zone=eu</code>" in html(app)
    assert app.dataframe[0].value["Value"].to_list() == ["abc"]


def test_what_was_never_read_is_called_so() -> None:
    gone = down("gone", labels={})
    page = html(open_page(fleet([gone]), "replica", replica=gone.id))

    assert "Down: Nothing listens there." in page
    assert "Its settings were never read" in page
    assert "No reply tells what identifies it." in page
    assert "No engine is known" in page


def test_what_was_never_asked_has_no_probes() -> None:
    new = down("new", probes=())
    assert "It was never asked." in html(open_page(fleet([new]), "replica", replica=new.id))


def test_where_no_answer_came_there_is_none_to_choose() -> None:
    """A box without options would lead nowhere."""
    silent = down("chat-1", probes=(probe(raw=b"", failure=Failure(FailureKind.TIMEOUT, "No answer within 5 s.")),))
    app = open_page(fleet([silent]), "replica", replica=silent.id)

    assert "No answer came that could be shown." in html(app)
    assert "Raw answer, secrets removed" not in [box.label for box in app.selectbox]


def test_every_probe_is_shown_and_its_raw_answer_on_demand() -> None:
    probes = (
        probe(raw=b"a 1.0", reply=Reply(Source.METRICS)),
        probe("/server_info", raw=b'{"a":1}', failure=Failure(FailureKind.SCHEMA, "No config in it.")),
        probe("/v1/config", raw=b"", status=404),
    )
    one = replica(document=DOCUMENT, probes=probes, sources=(Source.PROVIDER,))
    app = open_page(fleet([one], [DOCUMENT]), "replica", replica=one.id)
    assert app.dataframe[1].value["Outcome"].to_list() == ["✕ answer of unknown shape", "✓ read", "– not here"]
    assert not app.code

    choice = app.selectbox(key="raw")
    assert choice.options == ["/server_info", "/metrics"]
    choice.set_value("/server_info")
    assert rerun(app).code[0].value == '{\n  "a": 1\n}'


def test_a_long_raw_answer_is_cut_and_says_so() -> None:
    one = replica(probes=(probe(raw=b"x" * 100_000),))
    app = open_page(fleet([one]), "replica", replica=one.id)
    app.selectbox(key="raw").set_value("/metrics")

    assert "The first 60,000 of 100,000 characters." in html(rerun(app))


def test_where_the_clock_stands_no_age_is_told() -> None:
    """`2 s ago` on what was frozen yesterday would be read as now."""
    shown = [open_page(story(), "replica", replica=ODD, screenshot=still) for still in ("0", "1")]
    live, still = (html(each).partition('<div class="page-head">')[2] for each in shown)

    assert " ago" in live
    assert " ago" not in still
    assert re.search(r"started \S+Z", still)


def test_contradictions_and_second_addresses_stand_on_top() -> None:
    clash = Contradiction("cache_config.block_size", setting(16), setting(32, source=Source.METRICS))
    one = replica(document=DOCUMENT, same_process=("http://chat-1:8000",), contradictions=(clash,))
    page = html(open_page(fleet([one], [DOCUMENT]), "replica", replica=one.id))

    assert "One process behind two addresses." in page
    assert "Its sources contradict each other in 1 setting" in page


def test_a_replica_without_the_provider_is_offered_the_lines_that_switch_it_on() -> None:
    """Behind a fold, last on the page, with what is set there already."""
    told = document({"env.VLLM_PLUGINS": ["mine"]})
    one = replica(document=told)
    app = open_page(fleet([one], [told]), "replica", replica=one.id)

    (fold,) = app.expander
    assert (fold.label, fold.proto.expanded) == ("Let this replica tell more", False)
    assert fold.code[0].value.splitlines() == [
        replica_offer.INSTALL,
        "export VLLM_PLUGINS=mine,fleet_config",
    ]


def test_a_replica_with_the_provider_shows_how_it_hashes_and_is_offered_nothing() -> None:
    told = document({"seed_policy": setting("default", source=Source.PROVIDER)})
    hashing = engine(fingerprint=Fingerprint("c0ffee", "f00d"))
    alike_too = [
        replica(name, document=told, engines=(hashing,), sources=(Source.PROVIDER, Source.METRICS))
        for name in ("a", "b", "c")
    ]
    app = open_page(fleet(alike_too, [told]), "replica", replica=alike_too[0].id)

    page = html(app)
    assert "Best answer: the provider." in page
    assert "Hashes like 2 other replicas of its pool." in page
    assert "Its hashes begin at the root that is the same everywhere" in page
    assert ">f00d</code>" in page
    assert not app.expander
    settings = app.dataframe[0].value.set_index("Setting")["Told by"]
    assert settings["seed_policy"] == "the provider"
    assert settings["block_size"] == "/server_info"


def test_another_pool_has_no_part_in_how_a_replica_hashes() -> None:
    hashing = (engine(fingerprint=Fingerprint("c0ffee", "f00d")),)
    here, there = replica("a", engines=hashing), replica("b", pool="embed", engines=hashing)
    page = html(open_page(fleet([here, there]), "replica", replica=here.id))

    assert "There is no other replica in its pool to share prefixes with." in page


def test_foreign_text_is_never_markup() -> None:
    bad = hostile()
    for each in bad.replicas:
        page = html(open_page(bad, "replica", replica=each.id))
        assert "<script" not in page
        assert "<img" not in page


def test_a_hostile_raw_answer_is_text() -> None:
    one = replica(probes=(probe(raw=HOSTILE.encode()),))
    app = open_page(fleet([one]), "replica", replica=one.id)
    app.selectbox(key="raw").set_value("/metrics")

    assert rerun(app).code[0].value == HOSTILE
