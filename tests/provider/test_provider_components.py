"""The versions of LMCache, NIXL and Mooncake are those of their metadata, and none of them is imported."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.captured import capture
from tests.provider.conftest import Serve
from vllm_fleet_provider.components import MAX_LETTERS, components_of
from vllm_fleet_provider.gathering import Gathering
from vllm_fleet_provider.shared.inference_config import Components

NOTHING = {"lmcache": None, "nixl": None, "mooncake": None}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install distributions by name and version, each as pip writes its metadata."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(**versions: str) -> None:
        for name, version in versions.items():
            info = tmp_path / f"{name}-1.dist-info"
            info.mkdir()
            text = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\n{version}\n"
            (info / "METADATA").write_bytes(text.encode("latin-1"))

    return installed


def gathered() -> tuple[dict[str, Any], list[dict[str, str]]]:
    gathering = Gathering()
    return components_of(gathering), gathering.unavailable


def test_nothing_installed_is_null_and_not_unavailable() -> None:
    assert gathered() == (NOTHING, [])
    assert set(NOTHING) == set(Components.model_fields)


@pytest.mark.parametrize("name", ["nixl_cu12", "nixl_cu13", "nixl_rocm", "nixl"])
def test_each_distribution_of_nixl_counts(name: str, install: Install) -> None:
    install(**{name: "Version: 1.5.1"})

    assert gathered() == ({**NOTHING, "nixl": "1.5.1"}, [])


@pytest.mark.parametrize("name", ["mooncake_transfer_engine", "mooncake_transfer_engine_cuda13"])
def test_each_distribution_of_mooncake_counts(name: str, install: Install) -> None:
    install(**{name: "Version: 0.3.14"}, lmcache="Version: 0.5.6+cu129")

    assert gathered() == ({**NOTHING, "mooncake": "0.3.14", "lmcache": "0.5.6+cu129"}, [])


def test_distributions_of_one_version_are_one_and_those_of_several_are_named(install: Install) -> None:
    install(nixl="Version: 1.3.1", nixl_cu12="Version: 1.3.1")
    same, _ = gathered()
    install(nixl_cu13="Version: 1.3.2")
    different, _ = gathered()

    assert (same["nixl"], different["nixl"]) == ("1.3.1", "nixl 1.3.1, nixl-cu12 1.3.1, nixl-cu13 1.3.2")


def test_metadata_that_cannot_be_read_is_listed_and_hides_no_other_version(install: Install) -> None:
    install(nixl="Version: \xff", lmcache=f"Version: {'9' * (MAX_LETTERS + 1)}", mooncake_transfer_engine="Version: 1")

    versions, unavailable = gathered()

    assert versions == {**NOTHING, "mooncake": "1"}
    assert unavailable == [
        {"field": "fleet.components.lmcache", "reason": "its value has another type, or a size that cannot be"},
        {"field": "fleet.components.nixl", "reason": "reading it raised UnicodeDecodeError"},
    ]


def test_an_engine_reports_its_versions_and_imports_none_of_them(
    install: Install, tmp_path: Path, serve: Serve
) -> None:
    install(nixl="Version: 1.5.1", lmcache="Version: 0.5.6")
    for name in ("nixl", "lmcache"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')")

    answer = serve(capture("llama")).json()

    assert answer["fleet"]["components"] == {"lmcache": "0.5.6", "nixl": "1.5.1", "mooncake": None}
    assert not {"nixl", "lmcache"} & sys.modules.keys()
