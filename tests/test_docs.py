"""The documents match the program."""

import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from dashboard import __version__
from dashboard.cli import COMMANDS, cli
from dashboard.config import load_options
from dashboard.config.baselines import read_baseline
from dashboard.rules.rollout import STUCK_AFTER, TOGETHER
from tests.docs_pages import DOCUMENTS, anchors, code_blocks, docs_page, links
from tests.golden.outputs import FOLDER
from tests.serving import ROOT
from tests.tools import command_line
from tests.tools.write_docs import RULES, generated, rule_pages
from vllm_fleet_provider.switch import ENDPOINTS, NAME, is_named, suggestion

COMMAND = re.compile(rf"python3? -m dashboard ((?:{'|'.join(COMMANDS)})\b[^\n`#>|]*)")
CODE_FILE = re.compile(r"`((?:dashboard|vllm_fleet_provider|tests|deploy|docs)/[\w./-]*)`")
NAME_IN_FILE = re.compile(r"`(\w+)` (?:is )?(?:of|in) `((?:dashboard|vllm_fleet_provider|tests)/[\w./-]+)`")
PLACE = re.compile(r"NAME|ID\b")  # such as dashboard/views/NAME.py
PAGE_NAME = re.compile(r"docs/([\w-]+\.md)(?:#([\w-]+))?")
README = (ROOT / "README.md").read_text()
TEXTS = {file: file.read_text() for file in DOCUMENTS}
WHEEL = f"vllm_fleet_provider-{__version__}-py3-none-any.whl"
FORBIDDEN = re.compile(r"(?<![\w.])/(?:root|home|tmp|mnt)/")


def test_what_is_generated_is_what_make_docs_writes() -> None:
    pages = generated()
    stale = [file.name for file, text in pages.items() if not file.exists() or file.read_text() != text]

    assert stale == [], "run make docs"
    assert set(RULES.glob("*.md")) <= pages.keys(), "run make docs"


def test_every_command_is_on_that_page() -> None:
    assert {name.split()[0] for name in command_line.COMMANDS} == set(COMMANDS)


def test_every_command_in_a_document_is_valid() -> None:
    shown = [shlex.split(each) for text in TEXTS.values() for each in COMMAND.findall(text)]
    complete = [each for each in shown if "--help" not in each and "[OPTIONS]" not in each]

    assert len(complete) > 15
    for words in complete:
        command, arguments = typer.main.get_command(cli), words
        while hasattr(command, "get_command"):  # a group: of all commands, or of those of the history
            command, arguments = command.get_command(None, arguments[0]), arguments[1:]
        with command.make_context(words[0], arguments) as context:
            assert context.params


def test_the_readme_and_the_changelog_are_short() -> None:
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in ("README.md", "CHANGELOG.md")}

    assert lines["README.md"] <= 180
    assert lines["CHANGELOG.md"] <= 60


def test_the_findings_in_the_readme_are_those_of_the_simulated_fleet() -> None:
    printed = " ".join((FOLDER / "demo" / "check.txt").read_text().split())
    (block,) = code_blocks(README, "text")
    findings = [" ".join(each.split()) for each in block.split("\n\n")]

    assert len(findings) == 3
    assert [each for each in findings if each not in printed] == [], "copy them from tests/golden/files/demo/check.txt"


def test_the_example_of_the_action_has_its_inputs_and_permissions() -> None:
    (text,) = [each for each in code_blocks(docs_page("ci"), "yaml") if "jobs:" in each]
    example = yaml.safe_load(text)
    *_, step = example["jobs"]["check"]["steps"]

    assert True in example, "YAML reads the word on as true"
    assert step["uses"].startswith("your-org/vllm-fleet-dashboard@")
    assert step["with"].keys() <= yaml.safe_load((ROOT / "action.yml").read_text())["inputs"].keys()
    assert example["permissions"] == {"contents": "read", "security-events": "write", "actions": "read"}


def test_every_link_has_a_target() -> None:
    texts = TEXTS | rule_pages()
    found = [(file, *link) for file, text in texts.items() for link in links(file, text)]

    assert len(found) > 200
    assert [each for each in found if not each[1].exists()] == []
    anchored = [(file, target.resolve(), anchor) for file, target, anchor in found if anchor]
    assert len(anchored) > 20
    assert [each for each in anchored if each[2] not in anchors(each[1].read_text())] == []


def test_every_file_in_a_document_exists_and_has_the_names_that_it_is_said_to_have() -> None:
    texts = [" ".join(text.split()) for text in TEXTS.values()]
    files = {ROOT / file for text in texts for file in CODE_FILE.findall(text) if not PLACE.search(file)}
    names = {found for text in texts for found in NAME_IN_FILE.findall(text) if not PLACE.search(found[1])}

    assert len(files) > 40
    assert [file for file in files if not file.exists()] == []
    assert len(names) > 10
    assert [(name, file) for name, file in names if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []


def test_every_page_that_the_program_names_exists() -> None:
    files = [
        *(
            file
            for folder in ("dashboard", "vllm_fleet_provider")
            for file in (ROOT / folder).rglob("*.py")
            if "routers" not in file.parts
        ),  # these name others' docs
        *(file for file in (ROOT / "deploy").rglob("*") if file.is_file()),
        ROOT / "fleet.example.yaml",
    ]
    named = {found for file in files for found in PAGE_NAME.findall(file.read_text())}

    assert {"provider.md", "config-api.md", "alerts.md"} <= {page for page, _ in named}
    pages = {file.name: anchors(text) for file, text in TEXTS.items() if file.parent.name == "docs"}
    assert {page for page, _ in named} <= set(pages)
    assert [(page, anchor) for page, anchor in named if anchor and anchor not in pages[page]] == []


def test_every_page_is_linked_in_the_readme() -> None:
    linked = {target.resolve() for target, _ in links(ROOT / "README.md", README)}

    assert {file for file in DOCUMENTS if file.name != "README.md"} <= linked


@pytest.mark.parametrize("file", [*DOCUMENTS, ROOT / "fleet.example.yaml"], ids=lambda file: file.name)
def test_no_document_has_a_path_of_a_machine(file: Path) -> None:
    assert not FORBIDDEN.search(file.read_text())


def test_every_make_target_in_a_document_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()

    named = {name for text in TEXTS.values() for name in re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)}

    assert {"demo", "run", "check"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_the_options_in_a_document_are_valid(file: Path, tmp_path: Path) -> None:
    kinds = ("jobs:", "repos:", "kind: Deployment", "- run:", "version: 1\n", "# fleet.yaml\nbaselines:")
    for block in code_blocks(TEXTS[file], "yaml"):
        if not any(kind in block for kind in kinds):
            (tmp_path / "fleet.yaml").write_text(block)
            load_options(tmp_path / "fleet.yaml")


def test_the_kubernetes_examples_install_the_wheel_where_vllm_finds_it() -> None:
    deployments = [yaml.safe_load(block) for block in code_blocks(docs_page("provider"), "yaml")]

    assert len(deployments) == 2
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        (vllm,) = pod["containers"]
        variables = {each["name"]: each["value"] for each in vllm["env"]}
        mounted = {each["mountPath"] for each in vllm["volumeMounts"]}
        wanted = [each["name"] for container in _containers(pod) for each in container["volumeMounts"]]
        assert is_named(variables), "vLLM loads only what VLLM_PLUGINS names"
        assert variables["PYTHONPATH"].removesuffix(f"/{WHEEL}") in mounted
        assert set(wanted) == {each["name"] for each in pod["volumes"]}
        assert WHEEL in str(deployment)


def test_the_kubernetes_examples_have_only_the_additions_of_the_provider() -> None:
    for block in code_blocks(docs_page("provider"), "yaml"):
        deployment = yaml.safe_load(block)
        assert set(deployment["spec"]) == {"template"}
        assert set(deployment["spec"]["template"]) == {"spec"}
        (vllm,) = deployment["spec"]["template"]["spec"]["containers"]
        assert set(vllm) == {"name", "env", "volumeMounts"}


@pytest.mark.parametrize("text", [README, docs_page("provider")], ids=["README", "provider"])
def test_the_documents_enable_the_provider_as_it_suggests(text: str) -> None:
    stock = {"vllm.general_plugins": ("lora_filesystem_resolver", "lora_hf_hub_resolver"), ENDPOINTS: (NAME,)}

    assert f"    pip install --no-deps {WHEEL}\n    {suggestion({}, stock).line}\n" in text


def test_every_wheel_in_a_document_has_the_name_of_this_version() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"vllm_fleet_[a-z]+-[\w.-]+\.whl", text)}

    assert named == {WHEEL, WHEEL.replace("provider", "dashboard")}


def test_the_readme_has_the_variable_for_keys_of_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((variable, value),) = re.findall(r"`(FLEET_\w+__TOKEN_ENV)=(\w+) [^`]* poll host1:8000`", README)
    monkeypatch.setenv(variable, value)

    monkeypatch.chdir(tmp_path)

    credentials = load_options().credentials

    assert credentials is not None
    assert credentials.token_env == value


def test_the_docs_have_the_limits_of_a_rollout() -> None:
    page = " ".join(docs_page("configuration").split())
    hours, minutes = STUCK_AFTER // timedelta(hours=1), TOGETHER // timedelta(minutes=1)

    assert f"the last start is at most {hours} hours ago" in page
    assert f"no replica has started for {hours} hours" in page
    assert f"started more than {minutes} minutes after all of the other" in page


def test_the_examples_of_baselines_are_valid() -> None:
    examples = [each for each in code_blocks(docs_page("baselines"), "yaml") if each.startswith("version:")]

    assert examples
    assert [read_baseline(each.encode(), "a.yaml")[1] for each in examples] == [()] * len(examples)


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]
