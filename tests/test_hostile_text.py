"""Foreign text in all output: no command of a CI system, no hidden characters, no formulas."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from typer.testing import Result

from dashboard.analysis.assembly import Fleet
from dashboard.analysis.changes import changes_between
from dashboard.fleet import Note
from dashboard.fleet.formatting import HIDDEN, csv_cell
from dashboard.render.export import _tables
from dashboard.render.tabular import to_table_csv
from dashboard.views.changes import changes_report
from dashboard.views.context import context_of
from dashboard.views.review import review_report
from tests.builders import NOW, devices, document, down, fleet, replica
from tests.commands import run as run_command
from tests.fleet.test_formatting import RUN, UNSEEN
from tests.page_runner import EVERY_PAGE, open_page
from tests.saved_fleets import saved
from tests.sources.polling.hostile import HostileServer, answers, changed_metrics

COMMANDS = (
    "\n::error::owned\r::add-mask::owned\r\n \t::error file=a::owned\x0b::error::owned\u2028::error::owned"
    "\x85::error::owned"
    "\n##[error]owned\n##[add-path]/owned\n##vso[task.setvariable variable=a]owned\n##TeamCity[owned]"
)
FOLDED = " ::error::owned" * 12  # a command after every fold
SEARCHED = "\u202e\u2066\u200e\u061c\u200b\u200d\ufeff\x9b\u00ad\u2060\u3164\u180e"  # no byte of a length or a number
FORMULAS = "x;=cmd|' /C calc'!A0"
ATTACKS = {"commands": COMMANDS, "folded": FOLDED, "unseen": UNSEEN}
ANNOTATION = re.compile(r"::(?:error|warning|notice) title=[^:\r\n]*::[^\r\n]*")
OURS = "\u200b"  # prevents links of a forge, in Markdown only


def attacked(text: str, *, majority: bool = True) -> Fleet:
    """Return a fleet in which every name and value is an attack."""
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
def _narrow_terminal(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "90")
    return working_folder


def run(*arguments: str) -> Result:
    done = run_command(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def assert_harmless(done: Result, *, markdown: bool = False) -> None:
    """Fail for a foreign command in the log, and for hidden characters."""
    for text in (done.stdout, done.stderr):
        for line in re.split(r"[\r\n]", ANNOTATION.sub("", text)):
            assert not RUN.search(line), line
        shown = text.replace(OURS, "") if markdown else text
        assert not HIDDEN.search(shown), HIDDEN.findall(shown)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("majority", [True, False])
@pytest.mark.parametrize("form", ["table", "json", "markdown", "junit", "sarif", "github"])
def test_no_value_is_a_command_in_check(tmp_path: Path, attack: str, form: str, *, majority: bool) -> None:
    """GitHub runs `::error::` at the start of a line, and `##[error]` anywhere."""
    (tmp_path / "a.json").write_bytes(saved(attacked(ATTACKS[attack], majority=majority)))
    done = run("check", "--snapshot", "a.json", "--format", form)

    assert "owned" in done.stdout or attack == "unseen"
    assert_harmless(done, markdown=form == "markdown")
    if form == "github":
        assert all(ANNOTATION.fullmatch(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["table", "json", "markdown"])
def test_no_value_is_a_command_in_diff(tmp_path: Path, attack: str, form: str) -> None:
    for name, majority in (("a.json", True), ("b.json", False)):
        (tmp_path / name).write_bytes(saved(attacked(ATTACKS[attack], majority=majority)))

    assert_harmless(run("diff", "a.json", "b.json", "--format", form), markdown=form == "markdown")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_no_value_is_a_command_in_a_report(tmp_path: Path, attack: str, form: str) -> None:
    (tmp_path / "a.json").write_bytes(saved(attacked(ATTACKS[attack])))

    assert_harmless(run("report", "--snapshot", "a.json", "--format", form), markdown=form == "markdown")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_value_is_a_command_in_a_baseline_and_none_is_changed(tmp_path: Path, attack: str) -> None:
    text = ATTACKS[attack]
    (tmp_path / "a.json").write_bytes(saved(attacked(text)))
    done = run("baseline", text, "--snapshot", "a.json")

    assert_harmless(done)
    (tmp_path / "b.yaml").write_text(done.stdout)
    again = run("check", "--snapshot", "a.json", "--baseline", "b.yaml", "--format", "json")
    deviating = [each for each in json.loads(again.stdout)["findings"] if each["rule"] == "BL-01"]
    assert {each["replica"] for finding in deviating for each in finding["replicas"]} == {f"http://http://{text}0:8000"}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_value_is_a_command_in_poll(attack: str, form: str) -> None:
    text = ATTACKS[attack]
    with HostileServer() as server:
        target = server.replica("strange")
        card = {"id": text, "root": text, "parent": None, "max_model_len": 2048}
        server.routes["/strange/metrics"] = answers(changed_metrics(cache_dtype=text))
        server.routes["/strange/v1/models"] = answers(json.dumps({"data": [card]}).encode())
        server.routes["/strange/version"] = answers(json.dumps({"version": text}).encode())
        assert_harmless(run("poll", target.id, "--format", form))


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
    """A CI job may get them from a pull request."""
    done = run(*(each.format(ATTACKS[attack]) for each in arguments))

    assert done.exit_code == (3 if arguments[0] in {"report", "baseline", "poll"} else 2)  # 3: no targets
    assert_harmless(done)


def test_no_line_of_a_fleet_yaml_is_a_command_in_an_error(tmp_path: Path) -> None:
    keys = {f"{COMMANDS}{number}": 1 for number in range(3)}
    (tmp_path / "fleet.yaml").write_text(json.dumps({**keys, "targets": [{"url": UNSEEN}], "file_sd": [{"files": 3}]}))
    done = run("check")

    assert done.exit_code == 2
    assert_harmless(done)


UNSEEN_FLEET = attacked(UNSEEN)


@pytest.mark.parametrize(
    ("page", "url"),
    [
        *((page, {}) for page in EVERY_PAGE if page != "replica"),
        *(("replica", {"replica": UNSEEN_FLEET.replicas[place].id}) for place in (0, -1)),
        ("compare", {"path": "model_config.tokenizer", "cohort": "A"}),
    ],
    ids=[*(page for page in EVERY_PAGE if page != "replica"), "replica", "replica that is down", "cell"],
)
def test_no_page_has_hidden_characters(page: str, url: dict[str, str]) -> None:
    app = open_page(UNSEEN_FLEET, page, at=NOW, **url)
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
def test_formulas_in_csv_cells_are_quoted_and_negative_numbers_are_not(text: str, cell: str) -> None:
    """Where `;` separates cells, a spreadsheet splits `x;=cmd` into two."""
    assert csv_cell(text) == cell


def test_no_table_has_a_formula_for_any_separator() -> None:
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
