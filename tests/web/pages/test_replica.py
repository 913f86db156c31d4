"""The page of one replica: tabs, filters, selected settings, raw answers."""

from urllib.parse import quote

import pytest

from dashboard.fleet import Failure, FailureKind, Replica, Reply, Source
from tests.builders import HOSTILE, document, down, fleet, probe, replica, story
from tests.page_runner import copied, html, open_page, rerun, table_of

DOCUMENT = document()
ODD = "http://chat-70b-17:8000"


@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        (None, ["No replica selected"]),
        (
            "http://<b>gone</b>:8000",
            ["Replica not found", "<code>http://&lt;b&gt;gone&lt;/b&gt;:8000</code>"],
        ),
    ],
)
def test_a_url_without_a_known_replica_links_to_all(asked: str | None, texts: list[str]) -> None:
    page = html(open_page(story(), "replica", **({"replica": asked} if asked else {})))  # type: ignore[arg-type]

    assert all(text in page for text in [*texts, 'href="replicas"'])


def test_a_replica_opens_by_its_name_or_its_address_and_a_name_of_several_lists_them() -> None:
    twins = [replica("twin", id=f"http://10.0.0.{number}:8000", document=DOCUMENT) for number in (1, 2)]
    built = fleet([*twins, replica("other", document=DOCUMENT)], [DOCUMENT])

    assert "<h1>other</h1>" in html(open_page(built, "replica", replica="other"))
    assert "<h1>twin</h1>" in html(open_page(built, "replica", replica="10.0.0.2:8000"))
    shown = html(open_page(built, "replica", replica="twin"))
    assert "2 replicas with this name" in shown
    assert all(f'href="replica?replica={quote(each.id, safe="")}"' in shown for each in twins)


def test_settings_are_filtered_by_search_section_and_difference() -> None:
    app = open_page(story(), "replica", replica=ODD, setting="block_size", search="unused here")
    assert table_of(app, "Settings")["Setting"] == ["cache_config.block_size", "cache_config.hash_block_size"]
    app.text_input(key="setting").set_value("unknown")
    assert "No matches. 17 settings hidden." in html(rerun(app))

    app = open_page(story(), "replica", replica=ODD, section="cache_config")
    app.toggle(key="show").set_value(True)
    paths = table_of(rerun(app), "Settings")["Setting"]
    assert paths == ["cache_config.block_size", "cache_config.gpu_memory_utilization"]


def test_the_link_of_a_setting_shows_its_whole_value() -> None:
    path = "compilation_config.cudagraph_capture_sizes"
    found = open_page(story(), "replica", replica=ODD, setting="cudagraph_capture_sizes")
    assert f'href="replica?replica={quote(ODD, safe="")}&amp;setting={path}"' in html(found)
    assert not any(text.startswith("[1, 2, 3,") for text in copied(found))
    app = open_page(story(), "replica", replica=ODD, setting=path)

    assert any(text.startswith("[1, 2, 3, 4, 5,") for text in copied(app))
    assert "<code>compilation_config.cudagraph_capture_sizes</code>" in html(app)


def test_the_tab_is_in_the_url() -> None:
    assert open_page(story(), "replica", replica=ODD, tab="Probes").session_state["tab"] == "Probes"
    assert open_page(story(), "replica", replica=ODD, tab="unknown").session_state["tab"] == "Settings"


def test_a_replica_that_was_never_read_opens_on_its_probes() -> None:
    built = fleet([down("gone")])

    assert open_page(built, "replica", replica=built.replicas[0].id).session_state["tab"] == "Probes"


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (down("gone", labels={}), "Settings not reported."),
        (down("gone", labels={}), "No labels, and no identity settings reported."),
        (down("new", probes=()), "Never polled."),
        (
            down("silent", probes=(probe(raw=b"", failure=Failure(FailureKind.TIMEOUT, "No answer within 5 s.")),)),
            "No answer to show.",
        ),
    ],
)
def test_missing_data_has_a_reason_and_no_control(member: Replica, text: str) -> None:
    app = open_page(fleet([member]), "replica", replica=member.id)

    assert text in html(app)
    assert not [box for box in app.selectbox if box.key in {"raw", "section"}]


def test_raw_answers_are_shown_on_demand_and_cut() -> None:
    probes = (
        probe(raw=b"x" * 100_000, reply=Reply(Source.METRICS)),
        probe("/server_info", raw=b'{"a":1}', failure=Failure(FailureKind.SCHEMA, "No config in it.")),
        probe("/v1/config", raw=b"", status=404),
    )
    one = replica(document=DOCUMENT, probes=probes, sources=(Source.PROVIDER,))
    app = open_page(fleet([one], [DOCUMENT]), "replica", replica=one.id)
    outcomes = table_of(app, "Probes")["Outcome"]
    choice = app.selectbox(key="raw")

    assert outcomes == ["✕ answer of unknown shape", "✓ read", "– not found"]
    assert not copied(app)
    assert choice.options == ["/server_info", "/metrics"]
    choice.set_value("/server_info")
    assert copied(rerun(app))[0] == '{\n  "a": 1\n}'
    app.selectbox(key="raw").set_value("/metrics")
    assert "The first 60,000 of 100,000 characters." in html(rerun(app))


def test_a_hostile_raw_answer_is_text() -> None:
    one = replica(probes=(probe(raw=HOSTILE.encode()),))
    app = open_page(fleet([one]), "replica", replica=one.id)
    app.selectbox(key="raw").set_value("/metrics")

    assert copied(rerun(app))[0] == HOSTILE
