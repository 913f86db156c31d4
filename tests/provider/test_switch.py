"""What VLLM_PLUGINS must be so that the provider is loaded and nothing else changes."""

import runpy
import sys
from pathlib import Path

import pytest

from dashboard.provider.switch import IDLE_UNLESS_NAMED, has_vllm, installed, is_named, listing, named, suggestion

GENERAL, ENDPOINTS, PLATFORM = "vllm.general_plugins", "vllm.endpoint_plugins", "vllm.platform_plugins"
OURS = {GENERAL: ("fleet_config",), ENDPOINTS: ("fleet_config",)}
VLLMS_OWN = ("lora_filesystem_resolver", "lora_hf_hub_resolver")
STOCK = {**OURS, GENERAL: ("fleet_config", *VLLMS_OWN)}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment that holds nothing but what a test installs into it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    return tmp_path


def install(environment: Path, project: str, text: str) -> None:
    folder = environment / f"{project}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(text)


def put_vllm(environment: Path) -> None:
    """vLLM as far as the switch sees it; importing it fails."""
    (environment / "vllm").mkdir()
    (environment / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')\n")
    install(environment, "vllm", f"[{GENERAL}]\nlora_filesystem_resolver = m:f\n")


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
def test_the_provider_is_named_where_vllm_would_load_it(value: str, *, expected: bool) -> None:
    assert is_named({"VLLM_PLUGINS": value}) is expected


def test_without_the_variable_nothing_is_named() -> None:
    assert named({"PATH": "fleet_config"}) is None
    assert not is_named({"PATH": "fleet_config"})


def test_an_empty_variable_names_one_plugin_without_a_name_as_in_vllm() -> None:
    assert named({"VLLM_PLUGINS": ""}) == ("",)


def test_where_nothing_is_named_the_line_names_what_loads_by_installation_too() -> None:
    plugins = {**STOCK, PLATFORM: ("tpu_of_ours",)}

    assert suggestion({}, plugins).line == "export VLLM_PLUGINS=lora_filesystem_resolver,tpu_of_ours,fleet_config"


def test_another_plugins_routes_are_not_opened_along_the_way() -> None:
    plugins = {**OURS, ENDPOINTS: ("fleet_config", "other_routes")}

    assert suggestion({}, plugins).value == "fleet_config"


def test_a_plugin_that_loads_now_and_would_add_routes_once_named_is_told() -> None:
    plugins = {GENERAL: ("both",), ENDPOINTS: ("both", "fleet_config")}
    found = suggestion({}, plugins)

    assert found.value == "both,fleet_config"
    assert "Adds HTTP routes too once it is named: both." in found.notes


def test_what_does_nothing_until_it_is_named_stays_unnamed_and_is_told() -> None:
    found = suggestion({}, STOCK)

    assert not IDLE_UNLESS_NAMED & set(found.value.split(","))
    assert [note for note in found.notes if note.startswith("Left out: lora_hf_hub_resolver. It does nothing until")]


@pytest.mark.parametrize("odd", ["a,b", "a\x1b[31mb", "a\nb"])
def test_a_name_that_the_variable_cannot_hold_is_left_out_and_shown_harmlessly(odd: str) -> None:
    found = suggestion({}, {**OURS, GENERAL: (odd,)})

    assert found.value == "fleet_config"
    assert f"cannot name it: {odd if odd.isprintable() else ascii(odd)}." in found.notes[-1]


def test_where_names_are_given_ours_comes_last_and_no_other_joins() -> None:
    found = suggestion({"VLLM_PLUGINS": "lora_hf_hub_resolver"}, STOCK)

    assert found.value == "lora_hf_hub_resolver,fleet_config"
    assert found.notes == ("VLLM_PLUGINS is set: the line adds the name to it.",)


def test_where_the_provider_is_named_already_nothing_changes() -> None:
    found = suggestion({"VLLM_PLUGINS": "fleet_config,lora_filesystem_resolver"}, STOCK)

    assert found.value == "fleet_config,lora_filesystem_resolver"
    assert found.notes == ("VLLM_PLUGINS names it already.",)


def test_the_providers_name_with_a_space_is_mended_and_a_foreign_one_is_told_but_left() -> None:
    found = suggestion({"VLLM_PLUGINS": "a, lora_filesystem_resolver, fleet_config"}, {**STOCK, PLATFORM: ("a",)})

    assert found.line == "export VLLM_PLUGINS='a, lora_filesystem_resolver,fleet_config'"
    assert found.notes[-1] == (
        "No plugin here is called ' lora_filesystem_resolver', ' fleet_config'. Did you mean fleet_config? "
        "vLLM does not strip spaces around a name."
    )


@pytest.mark.parametrize("value", ["fleet-config", "Fleet_Config", "fleetconfig"])
def test_a_name_that_was_meant_for_the_providers_gives_way_to_it(value: str) -> None:
    found = suggestion({"VLLM_PLUGINS": f"lora_filesystem_resolver,{value}"}, STOCK)

    assert found.value == "lora_filesystem_resolver,fleet_config"
    assert found.notes[-1] == f"No plugin here is called {value}. Did you mean fleet_config?"


def test_a_space_is_told_only_where_there_is_one() -> None:
    near = suggestion({"VLLM_PLUGINS": "fleet_config "}, STOCK)
    other = suggestion({"VLLM_PLUGINS": "another"}, STOCK)

    assert near.value == "fleet_config"
    assert near.notes[-1] == (
        "No plugin here is called 'fleet_config '. Did you mean fleet_config? vLLM does not strip spaces around a name."
    )
    assert other.value == "another,fleet_config"
    assert other.notes[-1] == "No plugin here is called another."


def test_another_plugin_that_is_called_almost_like_the_provider_stays() -> None:
    found = suggestion({"VLLM_PLUGINS": "fleet-config"}, {**OURS, PLATFORM: ("fleet-config",)})

    assert found.value == "fleet-config,fleet_config"
    assert found.notes == ("VLLM_PLUGINS is set: the line adds the name to it.",)


@pytest.mark.parametrize("value", ["", ",", " ", " , ,", "\x1b[0m", "\udcff"])
def test_a_variable_that_names_nothing_becomes_the_name_alone(value: str) -> None:
    found = suggestion({"VLLM_PLUGINS": value}, OURS)

    assert found.line == "export VLLM_PLUGINS=fleet_config"
    assert all(note.isprintable() for note in found.notes)


@pytest.mark.parametrize("value", ["", ",", " ", "fleet_config,", "lora_filesystem_resolver"])
def test_only_names_that_name_nothing_are_told_as_such(value: str) -> None:
    without_the_wheel = suggestion({"VLLM_PLUGINS": value}, {GENERAL: VLLMS_OWN})

    assert not [note for note in without_the_wheel.notes if note.startswith("No plugin here is called")]


def test_a_value_that_a_shell_would_run_is_quoted() -> None:
    assert suggestion({"VLLM_PLUGINS": "$(reboot)"}, OURS).line == "export VLLM_PLUGINS='$(reboot),fleet_config'"


def test_where_the_wheel_is_missing_it_is_said() -> None:
    found = suggestion({}, {GENERAL: VLLMS_OWN})

    assert found.notes[-1] == (
        "fleet_config is not among them: install the wheel here first, with pip install --no-deps."
    )
    assert suggestion({}, STOCK).notes == suggestion({}, {**STOCK, PLATFORM: ()}).notes


def test_long_lists_and_long_names_are_cut_where_people_read_them_but_not_in_the_line() -> None:
    many = tuple(f"plugin_{number:03}" for number in range(60))
    plugins = {**OURS, GENERAL: ("x" * 500, *many)}

    lines = "\n".join(listing(plugins))
    assert "plugin_048 and 11 more" in lines
    assert "plugin_049" not in lines
    assert "x" * 100 + "…," in lines
    assert len(suggestion({}, plugins).value.split(",")) == 62


def test_the_groups_are_those_that_the_variable_decides_on(environment: Path) -> None:
    install(environment, "one", f"[{GENERAL}]\nb = m:f\na = m:f\n[vllm.logits_processors]\nl = m:f\n")
    install(environment, "two", f"[{PLATFORM}]\np = m:f\n[console_scripts]\nvllm = m:f\n[pytest11]\nx = m:f\n")
    install(environment, "same", f"[{GENERAL}]\na = m:f\n")

    assert installed() == {GENERAL: ("a", "b"), PLATFORM: ("p",)}


def test_the_line_alone_goes_to_standard_output(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_vllm(environment)
    install(environment, "ours", f"[{ENDPOINTS}]\nfleet_config = m:f\n")

    runpy.run_module("dashboard.provider", run_name="__main__")

    said = capsys.readouterr()
    assert said.out == "export VLLM_PLUGINS=lora_filesystem_resolver,fleet_config\n"
    assert said.err.splitlines()[:3] == [
        "Plugins of vLLM that are installed here:",
        "  vllm.endpoint_plugins: fleet_config",
        "  vllm.general_plugins: lora_filesystem_resolver",
    ]


def test_an_environment_without_plugins_is_told_as_such(environment: Path) -> None:
    assert installed() == {}, f"nothing is installed in {environment}"
    assert listing(installed()) == ["  none"]


def test_a_python_without_vllm_gives_a_shell_nothing_to_run(
    environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line would leave out what vLLM's own Python has."""
    install(environment, "ours", f"[{ENDPOINTS}]\nfleet_config = m:f\n")

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dashboard.provider", run_name="__main__")

    assert ended.value.code == (
        f"exit 1: there is no vLLM in this Python ({sys.executable}): run it with the Python that runs vLLM."
    ), "Python writes a text to standard error, and ends with 1"
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_called_vllm_is_not_vllm(environment: Path) -> None:
    (environment / "vllm").mkdir()

    assert not has_vllm()


def test_vllm_is_found_without_being_imported(environment: Path) -> None:
    put_vllm(environment)

    assert has_vllm()
