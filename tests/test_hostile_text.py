"""Foreign text in everything that is shown or written: no command to a CI system, nothing hidden, nothing moved."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.cli import cli
from dashboard.fleet import Note
from dashboard.fleet.formatting import HIDDEN, csv_cell
from dashboard.render.csv_table import to_table_csv
from dashboard.render.export import _tables
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from dashboard.views.review import review_report
from tests.builders import devices, document, down, fleet, replica
from tests.fleet.test_text import RUN, UNSEEN
from tests.page_runner import open_page
from tests.saved_fleets import saved
from tests.sources.polling.hostile import HostileServer, answers, changed_metrics

COMMANDS = (
    "\n::error::owned\r::add-mask::owned\r\n \t::error file=a::owned\x0b::error::owned\u2028::error::owned"
    "\x85::error::owned"
    "\n##[error]owned\n##[add-path]/owned\n##vso[task.setvariable variable=a]owned\n##TeamCity[owned]"
)
FOLDED = " ::error::owned" * 12  # wherever a line is folded, a command begins the next one
SEARCHED = "\u202e\u2066\u200e\u061c\u200b\u200d\ufeff\x9b\u00ad\u2060\u3164\u180e"  # no byte of a length or a number
FORMULAS = "x;=cmd|' /C calc'!A0"
ATTACKS = {"commands": COMMANDS, "folded": FOLDED, "unseen": UNSEEN}
ANNOTATION = re.compile(r"::(?:error|warning|notice) title=[^:\r\n]*::[^\r\n]*")
OURS = "\u200b"  # parts what a forge would link, in Markdown alone


def attacked(text: str, *, majority: bool = True) -> Fleet:
    """A fleet in which all that a server or an operator can name is an attack, in findings and what they paste."""
    settings = {
        "model_config.tokenizer": text,
        "model_config.served_model_name": text,
        "cache_config.prefix_caching_hash_algo": text,
        "cache_config.cache_dtype": text,
        "parser.reasoning_parser": text,
        "model_config.override_generation_config": {text: [text]},
        "kv_events_config.topic": text,
        "env.VLLM_PLUGINS": text,
        "env.VLLM_KV_CACHE_LAYOUT": text,
        text: text,
    }
    odd = document(settings)
    plain = document({**dict.fromkeys(settings, "plain"), "cache_config.block_size": 32})
    few, many = (plain, odd) if majority else (odd, plain)
    members = [
        replica(
            f"http://{text}{number}",
            pool=text,
            labels={"name": f"{text}{number}", text: text},
            document=many if number else few,
            devices=devices(1, text),
            served_model_names=(text,),
            adapters={text: text},
        )
        for number in range(4)
    ]
    return fleet([*members, down(f"{text}9", pool=text, detail=text)], [odd, plain], name=text)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "90")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def harmless(done: Result, *, markdown: bool = False) -> None:
    """Fail where a line of the log is a command that the program did not mean, or where text is hidden."""
    for text in (done.stdout, done.stderr):
        for line in re.split(r"[\r\n]", ANNOTATION.sub("", text)):
            assert not RUN.search(line), line
        shown = text.replace(OURS, "") if markdown else text
        assert not HIDDEN.search(shown), HIDDEN.findall(shown)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("majority", [True, False])
@pytest.mark.parametrize("form", ["table", "json", "markdown", "junit", "sarif", "github"])
def test_no_value_is_a_command_in_what_check_prints(tmp_path: Path, attack: str, form: str, *, majority: bool) -> None:
    """`::error::` on a line of its own is run by GitHub, and `##[error]` anywhere in one."""
    (tmp_path / "a.json").write_bytes(saved(attacked(ATTACKS[attack], majority=majority)))
    done = run("check", "--snapshot", "a.json", "--format", form)

    assert "owned" in done.stdout or attack == "unseen"
    harmless(done, markdown=form == "markdown")
    if form == "github":
        assert all(ANNOTATION.fullmatch(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["table", "json", "markdown"])
def test_no_value_is_a_command_in_what_diff_prints(tmp_path: Path, attack: str, form: str) -> None:
    for name, majority in (("a.json", True), ("b.json", False)):
        (tmp_path / name).write_bytes(saved(attacked(ATTACKS[attack], majority=majority)))

    harmless(run("diff", "a.json", "b.json", "--format", form), markdown=form == "markdown")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_no_value_is_a_command_in_a_report_on_standard_output(tmp_path: Path, attack: str, form: str) -> None:
    (tmp_path / "a.json").write_bytes(saved(attacked(ATTACKS[attack])))

    harmless(run("report", "--snapshot", "a.json", "--format", form), markdown=form == "markdown")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_value_is_a_command_in_a_baseline_and_it_says_the_same(tmp_path: Path, attack: str) -> None:
    """YAML has escapes, so the value stays what it is."""
    text = ATTACKS[attack]
    (tmp_path / "a.json").write_bytes(saved(attacked(text)))
    done = run("baseline", text, "--snapshot", "a.json")

    harmless(done)
    (tmp_path / "b.yaml").write_text(done.stdout)
    again = run("check", "--snapshot", "a.json", "--baseline", "b.yaml", "--format", "json")
    deviating = [each for each in json.loads(again.stdout)["findings"] if each["rule"] == "BL-01"]
    assert {each["replica"] for finding in deviating for each in finding["replicas"]} == {f"http://http://{text}0:8000"}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_value_is_a_command_in_what_poll_prints(attack: str, form: str) -> None:
    text = ATTACKS[attack]
    with HostileServer() as server:
        target = server.replica("strange")
        card = {"id": text, "root": text, "parent": None, "max_model_len": 2048}
        server.routes["/strange/metrics"] = answers(changed_metrics(cache_dtype=text))
        server.routes["/strange/v1/models"] = answers(json.dumps({"data": [card]}).encode())
        server.routes["/strange/version"] = answers(json.dumps({"version": text}).encode())
        harmless(run("poll", target.id, "--format", form))


@pytest.mark.parametrize(
    "arguments",
    [
        ("rules", "{}"),
        ("check", "{}"),
        ("check", "--config", "{}"),
        ("check", "--snapshot", "{}"),
        ("check", "--baseline", "{}"),
        ("check", "--format", "{}"),
        ("check", "--min-coverage", "{}"),
        ("diff", "{}", "live"),
        ("report", "--since", "{}", "--format", "json"),
        ("baseline", "{}"),
        ("poll", "--pool", "{}"),
        ("{}",),
    ],
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_argument_is_a_command_in_an_error(arguments: tuple[str, ...], attack: str) -> None:
    """A CI job may take them from a pull request."""
    done = run(*(each.format(ATTACKS[attack]) for each in arguments))

    assert done.exit_code == 2
    harmless(done)


def test_no_line_of_a_fleet_yaml_is_a_command_in_an_error(tmp_path: Path) -> None:
    keys = {f"{COMMANDS}{number}": 1 for number in range(3)}
    (tmp_path / "fleet.yaml").write_text(json.dumps({**keys, "targets": [{"url": UNSEEN}], "file_sd": [{"files": 3}]}))
    done = run("check")

    assert done.exit_code == 2
    harmless(done)


PAGES = ["overview", "findings", "compare", "capacity", "replicas", "review"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_nothing_that_is_hidden_or_moves_its_neighbours(page: str) -> None:
    """All that goes to the browser is searched: HTML, tables, charts, options of widgets."""
    searched(attacked(UNSEEN), page)


def test_the_page_of_a_replica_shows_nothing_that_is_hidden() -> None:
    told = attacked(UNSEEN)
    for each in (told.replicas[0], told.replicas[-1]):
        searched(told, "replica", replica=each.id)


def test_a_cell_that_is_opened_shows_nothing_that_is_hidden() -> None:
    searched(attacked(UNSEEN), "compare", cell="model_config.tokenizer")


def searched(told: Fleet, page: str, **url: Any) -> None:
    app = open_page(told, page, **url)
    nodes = [each for root in (app.main, app.sidebar) for each in walked(root)]
    protos = [proto for each in nodes if (proto := getattr(each, "proto", None)) is not None]
    texts = [(type(each).__name__, each.SerializeToString().decode(errors="ignore")) for each in protos]
    shown = [(name, found.group()) for name, text in texts for found in re.finditer(f".{{0,20}}[{SEARCHED}]", text)]

    assert len(texts) > 3
    assert not shown


def walked(node: object) -> list[object]:
    below = getattr(node, "children", {})
    return [node, *(each for child in below.values() for each in walked(child))]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("x;=cmd", "x;'=cmd"),
        ("x; =cmd;+1", "x;' =cmd;'+1"),
        ("＝1+1", "'＝1+1"),
        ("＋1", "'＋1"),
        ("－1", "'－1"),
        ("＠SUM(1)", "'＠SUM(1)"),
        ("\t=1", "' =1"),
        ("\r=1", "' =1"),
        ("-1", "-1"),
        ("-0.5", "-0.5"),
        ("-1e-05", "-1e-05"),
        ("-1+1", "'-1+1"),
        ("+1", "'+1"),
        ("a;b", "a;b"),
    ],
)
def test_a_cell_that_a_spreadsheet_would_run_is_quoted_and_a_negative_number_stays_one(text: str, cell: str) -> None:
    """Where `;` separates cells, a spreadsheet splits `x;=cmd` into two."""
    assert csv_cell(text) == cell


def test_no_cell_of_any_table_is_a_formula_whatever_separates_the_cells() -> None:
    now, before = attacked(FORMULAS), attacked(f"＝1{FORMULAS}", majority=False)
    reports = [
        review_report(now, before=before, notes={"a": Note(FORMULAS)}, before_notes={}),
        changes_report(changes_between(before, now), context_of(before), context_of(now, filters=[("pool", "a,=1")])),
    ]
    cells = [
        cell.lstrip()
        for report in reports
        for table in _tables(report)
        for separator in ",;\t"
        for row in csv.reader(io.StringIO(to_table_csv(table, report.context)), delimiter=separator)
        for cell in row
    ]

    assert len(cells) > 200
    assert not [
        each for each in cells if each.startswith(("=", "@", "＝", "+", "－")) or re.match(r"-(?![0-9.e-]+$)", each)
    ]
