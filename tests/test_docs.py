"""The documents match the program."""

import re
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
from dashboard.provider.switch import ENDPOINTS, NAME, is_named, suggestion
from dashboard.rules.catalogue import ALL_RULES
from dashboard.rules.rollout import STUCK_AFTER, TOGETHER
from tests.serving import ROOT
from tests.tools import command_line
from tests.tools.write_docs import RULES, rule_pages

COMMAND = re.compile(
    r"python3? -m dashboard ((?:poll|check|settings|rules|baseline|report|diff|serve|demo)\b[^\n`#>|]*)"
)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")),
]
WHEEL = f"vllm_fleet_provider-{__version__}-py3-none-any.whl"
FORBIDDEN = re.compile(r"(?<![\w.])/(?:root|home|tmp|mnt)/")


def test_the_page_of_commands_matches_the_help() -> None:
    assert command_line.PAGE.read_text() == command_line.page_text(), "run make docs"


def test_every_command_is_on_that_page_and_in_the_readme(readme: str) -> None:
    assert {name.split()[0] for name in command_line.COMMANDS} == set(COMMANDS)
    assert set(re.findall(r"^\| `([a-z-]+)", readme, re.MULTILINE)) >= set(COMMANDS)


def test_every_command_in_the_readme_is_valid(readme: str) -> None:
    group = typer.main.get_command(cli)
    shown = [each.split() for each in COMMAND.findall(readme)]
    complete = [each for each in shown if "--help" not in each and "[OPTIONS]" not in each]

    assert len(complete) >= 4
    for name, *arguments in complete:
        command = group.get_command(None, name)  # type: ignore[attr-defined]
        with command.make_context(name, arguments) as context:
            assert context.params


def test_the_last_step_of_the_ci_example_fails_the_job(readme: str) -> None:
    example = yaml.safe_load(next(text for text in YAML.findall(readme) if "runs-on" in text))
    steps = example["jobs"]["check"]["steps"]

    assert True in example, "YAML reads the word on as true"
    assert "--format github" in steps[-1]["run"]
    assert "never" not in steps[-1]["run"]


def test_the_pages_of_rules_match_the_rules() -> None:
    pages = rule_pages()

    assert {file.name for file in RULES.glob("*.md")} == {file.name for file in pages}, "run make docs"
    stale = [file.name for file, text in pages.items() if file.read_text() != text]
    assert stale == [], "run make docs"


def test_every_link_has_a_target() -> None:
    documents = {ROOT / name: (ROOT / name).read_text() for name in PAGES} | rule_pages()

    links = [(file.parent / link, file.name) for file, text in documents.items() for link in LINK.findall(text)]
    assert len(links) > 100
    assert [(str(link), name) for link, name in links if not link.exists()] == []


@pytest.mark.parametrize("document", [*PAGES, "fleet.example.yaml"])
def test_no_document_has_a_path_of_a_machine(document: str) -> None:
    assert not FORBIDDEN.search((ROOT / document).read_text())


def test_every_make_target_in_a_document_exists(readme: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()

    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", readme + contributing, re.MULTILINE))

    assert {"demo", "run", "check"} <= named
    assert {name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


def test_the_requirements_are_before_the_first_command(readme: str) -> None:
    first = readme.partition("\n    make ")[0]

    assert "Linux" in first
    assert "Python 3.11" in first


def test_the_version_is_defined_once() -> None:
    assert (Path(ROOT) / "dashboard" / "__init__.py").read_text().count("__version__ =") == 1


def test_the_options_in_the_readme_are_valid(readme: str, tmp_path: Path) -> None:
    blocks = [block for block in YAML.findall(readme) if "jobs:" not in block and "kind:" not in block]

    assert len(blocks) == 5
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        load_options(file)


def test_the_kubernetes_examples_install_the_wheel_where_vllm_finds_it(readme: str) -> None:
    deployments = [yaml.safe_load(block) for block in YAML.findall(readme) if "kind: Deployment" in block]

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


def test_the_kubernetes_examples_have_only_the_additions_of_the_provider(readme: str) -> None:
    for block in (block for block in YAML.findall(readme) if "kind: Deployment" in block):
        deployment = yaml.safe_load(block)
        assert set(deployment["spec"]) == {"template"}
        assert set(deployment["spec"]["template"]) == {"spec"}
        (vllm,) = deployment["spec"]["template"]["spec"]["containers"]
        assert set(vllm) == {"name", "env", "volumeMounts"}


def test_the_init_container_installs_into_the_folder_of_plugins(readme: str) -> None:
    example = yaml.safe_load(next(block for block in YAML.findall(readme) if "initContainers" in block))
    (first,) = example["spec"]["template"]["spec"]["initContainers"]

    assert "--no-deps" in first["command"]
    assert "--target=/plugins" in first["command"]
    assert first["command"][-1] == f"/wheel/{WHEEL}"


def test_the_readme_enables_the_provider_as_it_suggests(readme: str) -> None:
    stock = {"vllm.general_plugins": ("lora_filesystem_resolver", "lora_hf_hub_resolver"), ENDPOINTS: (NAME,)}

    assert f"    pip install --no-deps {WHEEL}\n    {suggestion({}, stock).line}\n" in readme
    whole = WHEEL.replace("provider", "dashboard")
    assert set(re.findall(r"vllm_fleet_[a-z]+-[\w.-]+\.whl", readme)) == {WHEEL, whole}


def test_the_readme_has_the_variable_for_keys_of_addresses(
    readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((variable, value),) = re.findall(r"`(FLEET_\w+__TOKEN_ENV)=(\w+) [^`]* poll host1:8000`", readme)
    monkeypatch.setenv(variable, value)

    monkeypatch.chdir(tmp_path)

    credentials = load_options().credentials

    assert credentials is not None
    assert credentials.token_env == value


def test_the_readme_has_the_limit_of_a_stuck_rollout(readme: str) -> None:
    hours = STUCK_AFTER // timedelta(hours=1)

    assert f"the last start is at most {hours} hours ago" in readme
    assert f"no replica has started for {hours} hours" in readme


def test_the_readme_has_the_time_between_starts_of_a_rollout(readme: str) -> None:
    assert f"started more than {TOGETHER // timedelta(minutes=1)} minutes after all of the\nother" in readme


def test_the_changelog_counts_the_rules() -> None:
    assert f"- {len(ALL_RULES)} rules with a page each" in (ROOT / "CHANGELOG.md").read_text()


def test_the_examples_of_baselines_are_valid() -> None:
    examples = [
        each for each in YAML.findall((ROOT / "docs" / "baselines.md").read_text()) if each.startswith("version:")
    ]

    assert examples
    assert [read_baseline(each.encode(), "a.yaml")[1] for each in examples] == [()] * len(examples)


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]
