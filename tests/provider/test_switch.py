"""The value of VLLM_PLUGINS that loads the provider and changes nothing else."""

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from vllm_fleet_provider.switch import has_vllm, installed, is_named, listing, named, suggestion

GENERAL, ENDPOINTS, PLATFORM = "vllm.general_plugins", "vllm.endpoint_plugins", "vllm.platform_plugins"
OURS = {GENERAL: ("fleet_config",), ENDPOINTS: ("fleet_config",)}
VLLMS_OWN = ("lora_filesystem_resolver", "lora_hf_hub_resolver")
STOCK = {**OURS, GENERAL: ("fleet_config", *VLLMS_OWN)}
IS_SET = "VLLM_PLUGINS is set: the line adds the name to it."
SPACES = "vLLM does not strip spaces around a name."
MEANT = "Did you mean fleet_config?"


def install(environment: Path, project: str, text: str) -> None:
    folder = environment / f"{project}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(text)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment without packages."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("fleet_config", True),
        ("lora_filesystem_resolver,fleet_config", True),
        ("fleet_config,", True),
        ("", False),
        ("lora_filesystem_resolver, fleet_config", False),
        ("fleet_config ", False),
        ("Fleet_config", False),
        ("fleet_config_2", False),
        ("fleet_config;other", False),
    ],
)
def test_the_provider_is_named_if_vllm_would_load_it(value: str, *, expected: bool) -> None:
    assert is_named({"VLLM_PLUGINS": value}) is expected


def test_an_unset_variable_names_nothing_and_an_empty_one_names_an_empty_plugin_as_in_vllm() -> None:
    assert named({"PATH": "fleet_config"}) is None
    assert not is_named({"PATH": "fleet_config"})
    assert named({"VLLM_PLUGINS": ""}) == ("",)


@pytest.mark.parametrize(
    ("plugins", "value", "note"),
    [
        ({**STOCK, PLATFORM: ("our_tpu",)}, "lora_filesystem_resolver,our_tpu,fleet_config", None),
        ({**OURS, ENDPOINTS: ("fleet_config", "other_routes")}, "fleet_config", None),
        (
            {GENERAL: ("both",), ENDPOINTS: ("both", "fleet_config")},
            "both,fleet_config",
            "Also adds HTTP routes once it is named: both.",
        ),
        (
            STOCK,
            "lora_filesystem_resolver,fleet_config",
            "Left out: lora_hf_hub_resolver. It does nothing until it is named, and may then download adapters.",
        ),
        ({**OURS, GENERAL: ("a,b",)}, "fleet_config", "Left out because VLLM_PLUGINS cannot contain the name: a,b."),
        (
            {**OURS, GENERAL: ("a\x1b[31mb", "a\nb")},
            "fleet_config",
            r"Left out because VLLM_PLUGINS cannot contain the name: 'a\nb', 'a\x1b[31mb'.",
        ),
        (
            {GENERAL: VLLMS_OWN},
            "lora_filesystem_resolver,fleet_config",
            "fleet_config is not among them: install the wheel here first, with pip install --no-deps.",
        ),
    ],
)
def test_while_the_variable_is_not_set_the_line_keeps_the_plugins_that_are_loaded(
    plugins: Mapping[str, tuple[str, ...]], value: str, note: str | None
) -> None:
    found = suggestion({}, plugins)

    assert found.line == f"export VLLM_PLUGINS={value}"
    assert (found.notes[-1] if note else None) == note
    assert len(found.notes) == (3 if note else 2) or "lora_hf_hub_resolver" in str(plugins)


@pytest.mark.parametrize(
    ("variable", "plugins", "value", "notes"),
    [
        ("lora_hf_hub_resolver", STOCK, "lora_hf_hub_resolver,fleet_config", [IS_SET]),
        (
            "fleet_config,lora_filesystem_resolver",
            STOCK,
            "fleet_config,lora_filesystem_resolver",
            ["VLLM_PLUGINS already names it."],
        ),
        ("fleet-config", {**OURS, PLATFORM: ("fleet-config",)}, "fleet-config,fleet_config", [IS_SET]),
        ("another", STOCK, "another,fleet_config", [IS_SET, "No installed plugin is named another."]),
        (
            "fleet_config ",
            STOCK,
            "fleet_config",
            [IS_SET, f"No installed plugin is named 'fleet_config '. {MEANT} {SPACES}"],
        ),
        (
            "a, b, fleet_config",
            {**STOCK, PLATFORM: ("a",)},
            "a, b,fleet_config",
            [IS_SET, f"No installed plugin is named ' b', ' fleet_config'. {MEANT} {SPACES}"],
        ),
        *(
            (
                f"lora_filesystem_resolver,{typo}",
                STOCK,
                "lora_filesystem_resolver,fleet_config",
                [IS_SET, f"No installed plugin is named {typo}. {MEANT}"],
            )
            for typo in ("fleet-config", "Fleet_Config", "fleetconfig")
        ),
    ],
)
def test_if_the_variable_is_set_only_the_provider_is_added_or_its_misspelling_replaced(
    variable: str, plugins: Mapping[str, tuple[str, ...]], value: str, notes: list[str]
) -> None:
    found = suggestion({"VLLM_PLUGINS": variable}, plugins)

    assert (found.value, list(found.notes)) == (value, notes)


@pytest.mark.parametrize("variable", ["", ",", " ", " , ,", "\x1b[0m", "\udcff"])
def test_a_variable_without_a_valid_name_becomes_the_name_alone(variable: str) -> None:
    found = suggestion({"VLLM_PLUGINS": variable}, OURS)

    assert found.line == "export VLLM_PLUGINS=fleet_config"
    assert all(note.isprintable() for note in found.notes)
    assert "No installed plugin" not in " ".join(suggestion({"VLLM_PLUGINS": "fleet_config, ,"}, STOCK).notes)


def test_a_value_that_a_shell_would_run_is_quoted() -> None:
    assert suggestion({"VLLM_PLUGINS": "$(reboot)"}, OURS).line == "export VLLM_PLUGINS='$(reboot),fleet_config'"


def test_long_lists_and_names_are_cut_in_the_list_but_not_in_the_line() -> None:
    many = tuple(f"plugin_{number:03}" for number in range(60))
    plugins = {**OURS, GENERAL: ("x" * 500, *many)}

    lines = "\n".join(listing(plugins))
    assert "plugin_048 and 11 more" in lines
    assert "plugin_049" not in lines
    assert "x" * 100 + "…," in lines
    assert len(suggestion({}, plugins).value.split(",")) == 62


def test_the_listed_groups_are_those_that_the_variable_selects(environment: Path) -> None:
    assert listing(installed()) == ["  none"]
    install(environment, "one", f"[{GENERAL}]\nb = m:f\na = m:f\n[vllm.logits_processors]\nl = m:f\n")
    install(environment, "two", f"[{PLATFORM}]\np = m:f\n[console_scripts]\nvllm = m:f\n[pytest11]\nx = m:f\n")
    install(environment, "same", f"[{GENERAL}]\na = m:f\n")

    assert installed() == {GENERAL: ("a", "b"), PLATFORM: ("p",)}


def test_only_the_line_is_on_standard_output_and_vllm_is_not_imported(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (environment / "vllm").mkdir()
    assert not has_vllm(), "an empty folder of that name"
    (environment / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')\n")
    install(environment, "vllm", f"[{GENERAL}]\nlora_filesystem_resolver = m:f\n")
    install(environment, "ours", f"[{ENDPOINTS}]\nfleet_config = m:f\n")

    runpy.run_module("vllm_fleet_provider", run_name="__main__")

    printed = capsys.readouterr()
    assert printed.out == "export VLLM_PLUGINS=lora_filesystem_resolver,fleet_config\n"
    assert printed.err.splitlines()[:3] == [
        "Plugins of vLLM that are installed here:",
        "  vllm.endpoint_plugins: fleet_config",
        "  vllm.general_plugins: lora_filesystem_resolver",
    ]


def test_a_python_without_vllm_prints_no_line(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line would omit the plugins of vLLM's Python."""
    install(environment, "ours", f"[{ENDPOINTS}]\nfleet_config = m:f\n")

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("vllm_fleet_provider", run_name="__main__")

    assert ended.value.code == (
        f"exit 1: there is no vLLM in this Python ({sys.executable}): run it with the Python that runs vLLM."
    ), "Python writes a text to standard error and exits with 1"
    assert capsys.readouterr().out == ""
