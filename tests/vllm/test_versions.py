"""Settings of vLLM versions: known facts, and no claims beyond them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.fleet import Setting, Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.versions import (
    EARLIEST,
    VERSION,
    has_change,
    is_unsupported,
    label_type,
    release,
    release_before,
    reports_change,
)

CAPTURES = Path(__file__).parents[1] / "captures"
SERVERS = [pytest.param(folder, id=f"{folder.parent.name}-{folder.name}") for folder in sorted(CAPTURES.glob("*/*"))]
PYTHON_SERVERS = [each for each in SERVERS if "rust" not in str(each.id)]
LABEL = re.compile(r'(\w+)="')


def every_path(section: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in section.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from every_path(value, f"{prefix}{name}.")


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("cache_config.block_size", {"0.12.0", "0.20.2", "0.32.0"}),
        ("cache_config.hash_block_size", {"0.20.2", "0.32.0"}),
        ("cache_config.prefix_match_unit", {"0.32.0"}),
        ("cache_config.kv_cache_size_tokens", {"0.32.0"}),
        ("cache_config.swap_space", {"0.12.0"}),
        ("scheduler_config.max_num_partial_prefills", {"0.12.0", "0.20.2"}),
        ("parallel_config.eplb_config.policy", {"0.20.2", "0.32.0"}),
        ("attention_config", {"0.20.2", "0.32.0"}),
        ("attention_config.backend", {"0.20.2", "0.32.0"}),
        ("parallel_config.fault_tolerance_config.engine_recovery_timeout_sec", {"0.32.0"}),
        ("cache_config.not_invented_yet", set()),
    ],
)
def test_a_setting_is_unsupported_exactly_in_the_versions_without_it(path: str, versions: set[str]) -> None:
    known = {"0.12.0", "0.20.2", "0.32.0"}
    assert {version for version in known if not is_unsupported(version, path)} == versions


@pytest.mark.parametrize(
    ("version", "path", "unsupported"),
    [
        ("0.25.0", "cache_config.swap_space", True),
        ("0.15.1", "cache_config.prefix_match_unit", True),
        ("0.25.0", "cache_config.prefix_match_unit", True),
        ("0.26.0rc1", "cache_config.prefix_match_unit", False),  # added in 0.26.0
        ("0.25.0", "scheduler_config.max_num_partial_prefills", False),
        ("0.27.1", "scheduler_config.max_num_partial_prefills", True),  # removed in 0.27.0
        ("0.28.0", "attention_config.use_cudnn_prefill", True),  # removed in 0.22.0
        ("0.26.0", "attention_config.use_cudnn_prefill", True),
        ("0.22.0", "attention_config.use_cudnn_prefill", False),
        ("0.28.0", "attention_config.use_prefill_decode_attention", False),  # its last version
        ("0.28.0", "kv_transfer_config.kv_role", False),
        ("0.25.0", "kv_transfer_config.kv_role", False),
        ("0.32.0rc2", "cache_config.swap_space", True),
        ("0.27.0rc2", "scheduler_config.max_num_partial_prefills", False),  # 0.26.0 has it
        ("0.20.3.dev5+gabc", "cache_config.swap_space", True),
        ("0.20.3.dev5+gabc", "cache_config.prefix_match_unit", True),
        ("0.33.1.dev5+gabc", "cache_config.not_invented_yet", False),  # may be 0.34.0
        ("0.1.dev5+gabc", "cache_config.prefix_match_unit", False),
    ],
)
def test_a_version_between_lacks_only_paths_that_both_neighbours_lack(
    version: str,
    path: str,
    unsupported: bool,  # noqa: FBT001
) -> None:
    assert is_unsupported(version, path) is unsupported


@pytest.mark.parametrize("version", ["0.12.0", "0.20.2", "0.25.0", "0.32.0"])
@pytest.mark.parametrize(
    "path",
    [
        "env.VLLM_KV_CACHE_LAYOUT",  # not listed where it is not set
        "env.VLLM_NOT_INVENTED_YET",
        "env.PYTHONHASHSEED",
        "version",
        "",
        ".",
        "cache_config",
        pytest.param("a." * 500_000, id="a long one"),
        "kv_transfer_config.kv_role",
        "kv_transfer_config.kv_connector_extra_config.anything",
        "additional_config.anything",
        "model_config.hf_overrides.rope.theta",
        "compilation_config.inductor_compile_config.anything",
        "speculative_config.target_model_config.anything",
        "not_invented_yet_config.anything",
    ],
)
def test_paths_outside_of_captured_sections_are_never_unsupported(version: str, path: str) -> None:
    assert not is_unsupported(version, path)


@pytest.mark.parametrize("server", PYTHON_SERVERS)
def test_reported_settings_are_supported_in_their_version(server: Path) -> None:
    version = json.loads((server / "version.json").read_bytes())["version"]
    reported = set(every_path(json.loads((server / "server_info.json").read_bytes())["vllm_config"]))
    assert {"cache_config.block_size", "instance_id"} <= reported
    assert [path for path in reported if is_unsupported(version, path)] == []


@pytest.mark.parametrize("server", PYTHON_SERVERS)
def test_every_label_of_the_cache_configuration_is_known_and_has_its_type(server: Path) -> None:
    lines = (server / "metrics.txt").read_text(encoding="utf-8").splitlines()
    line = next(line for line in lines if line.startswith("vllm:cache_config_info{"))
    labels = set(LABEL.findall(line)) - {"engine"}
    fields = json.loads((server / "server_info.json").read_bytes())["vllm_config"]["cache_config"]
    values = {label: fields[label] for label in labels if fields[label] is not None}
    assert len(labels) > 20
    assert [label for label in labels if is_unsupported(server.parent.name, f"cache_config.{label}")] == []
    assert [label for label in labels if label_type(label) is None] == []
    assert [label for label, value in values.items() if label_type(label) != type(value).__name__] == []


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("0.32.0", "0.32.0"),
        ("v0.32.0", "0.32.0"),
        ("0.32.0+cpu", "0.32.0"),
        ("0.12.0.post2", "0.12.0"),
        ("0.32.1.dev12+gabc", "0.32.1"),
        ("0.32.0rc1", "0.32.0"),
        ("0.32", "0.32.0"),
        ("0.32.00", "0.32.0"),
        ("1.2.3.4", "1.2.3.4"),
        ("1.2.3.4.5", None),
        ("0.32." + "9" * 10, None),
        ("0", None),
        ("dev", None),
        ("", None),
        ("main-0.32.0", None),
        ("٠.٣٢.٠", None),
        ("0." + "9" * 5000, None),
    ],
)
def test_release_part_of_a_version(version: str, wanted: str | None) -> None:
    assert release(version) == wanted


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("0.24.0", True),
        ("v0.24.0+cu129", True),
        ("0.24.0.post1", True),
        ("0.24.1rc1", True),
        ("0.32.1.dev580+gabc", True),
        ("0.23.0", False),
        ("0.23.0rc1", False),
        ("0.23.0.dev4", False),
        ("0.24.0rc1", None),
        ("0.24.0.dev12+gabc", None),
        ("0.23.1.dev12+gabc", None),  # code of 0.24.0 or of 0.23.1
        ("1.0.0rc1", True),
        ("0.22.1.dev12", False),
        ("dev", None),
        ("0.24.0-rocm", None),
        ("0.24.0+" + "a" * 5000, None),
        ("9" * 5000, None),
        (None, None),
        ("0.1.dev5+g3f2a1bc", None),  # a source build without tags
        ("0.1.0", None),
        ("0.0.0", None),
        ("3f2a1bc", None),
        ("0.2.0", False),
    ],
)
def test_a_change_of_0_24_is_unknown_for_builds_between_0_23_and_0_24(
    version: str | None,
    wanted: bool | None,  # noqa: FBT001
) -> None:
    assert has_change(version, (0, 24, 0)) is wanted


def test_what_a_build_answers_bounds_it_where_its_version_shows_no_release() -> None:
    def settings(**values: str) -> dict[str, Setting]:
        return {path: setting(path, value, Source.VERSION) for path, value in values.items()}

    source = settings(**{VERSION: "0.1.dev5+g3f2a1bc", EARLIEST: "0.31.0"})

    assert reports_change(source, (0, 29, 0)) is True
    assert reports_change(source, (0, 32, 0)) is None
    assert reports_change(settings(**{VERSION: "0.28.0", EARLIEST: "0.31.0"}), (0, 29, 0)) is False
    assert reports_change(settings(**{VERSION: "0.1.dev5"}), (0, 29, 0)) is None
    assert reports_change({}, (0, 29, 0)) is None
    assert reports_change({VERSION: setting(VERSION, None, Source.VERSION)}, (0, 29, 0)) is None


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (["cache_config.kv_cache_size_tokens"], "0.23.0"),
        (["cache_config.block_size", "cache_config.swa_bounded_replay"], "0.30.0"),
        (["cache_config.block_size"], None),
        (["cache_config.not_invented_yet"], None),
        ([], None),
    ],
)
def test_a_setting_shows_that_a_build_is_newer_than_the_last_release_without_it(
    paths: list[str], wanted: str | None
) -> None:
    assert release_before(paths) == wanted
