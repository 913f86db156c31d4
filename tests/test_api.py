"""The public Python API: against real servers, with clear errors, loaded only when it is used."""

import asyncio
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

import dashboard
from dashboard import compare_fleets, load_fleet, poll_fleet
from dashboard.analysis.assembly import Fleet
from dashboard.demo import default_fleet, in_thread, targets
from dashboard.errors import OptionsError, SnapshotError
from dashboard.fleet.frames import FRAMES
from dashboard.store.packing import content_of
from tests.captured import METRICS, capture, snapshot
from tests.docs_pages import code_blocks, docs_page
from tests.polled_fleets import OPEN, at, built
from tests.sources.polling.hostile import changed_metrics

LAZY = "import sys, dashboard, dashboard.cli, vllm_fleet_provider; sys.exit('pandas' in sys.modules)"


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    with in_thread(default_fleet(2)) as server:
        yield [f"http://{entry['targets'][0]}" for entry in targets(server.fleet, server.port)][:2]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path) -> Iterator[None]:
    with chdir(tmp_path):
        yield


def test_the_documented_example_runs(addresses: list[str]) -> None:
    example, *_ = code_blocks(docs_page("dataframes"), "python")
    for shown, address in zip(("http://h1:8000", "http://h2:8000"), addresses, strict=True):
        example = example.replace(shown, address)
    printed = printed_by(example)

    assert all(address in printed for address in addresses)
    assert "kv_cache_size_tokens" in printed


def test_the_documented_comparison_runs(tmp_path: Path) -> None:
    (*_, example) = code_blocks(docs_page("dataframes"), "python")
    smaller = {METRICS: changed_metrics(block_size=32, num_gpu_blocks=100, kv_cache_size_tokens=3200)}
    changed = snapshot({**capture("llama").answers, **smaller}, OPEN, target="http://10.0.0.1:8000")
    before = built(at(1), at(2))
    after = built(changed, at(2), at(3))
    (tmp_path / "monday.json").write_bytes(content_of(before))
    (tmp_path / "tuesday.json").write_bytes(content_of(after))

    printed = printed_by(example)

    assert "added: ['10.0.0.3:8000']\ncache_config.block_size 128 32 ('http://10.0.0.1:8000',)\n" in printed
    assert "\nhttp://10.0.0.1:8000 0 " in printed
    assert "\nwarning " in printed


def printed_by(example: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        exec(example, {})  # noqa: S102  our own page
    return printed.getvalue()


def test_a_fleet_and_its_frames_are_shown_in_one_line() -> None:
    fleet = built(at(0), at(1))

    assert repr(fleet) == f"<Fleet 'prod', polled_at={fleet.polled_at}, replicas=2, pools=1>"
    assert repr(fleet.frames) == "<Frames replicas, settings, engines, devices, kv_cache_groups, traffic, findings>"
    assert "replicas" not in vars(fleet.frames)


def test_a_fleet_is_polled_saved_loaded_and_compared_also_in_a_notebook(addresses: list[str], tmp_path: Path) -> None:
    async def cell() -> Fleet:  # the event loop of a notebook is running
        return poll_fleet(addresses)

    fleet = asyncio.run(cell())
    file = tmp_path / "saved.json"
    file.write_bytes(content_of(fleet))
    again = load_fleet(file)
    changes = compare_fleets(fleet, again)

    assert again.frames.engines.equals(fleet.frames.engines)
    assert list(again.frames.findings["id"]) == [each.id for each in fleet.inspection.findings]
    assert not changes.replicas.added
    assert not changes.capacity.ranks
    assert {len(getattr(fleet.frames, name)) > 0 for name in FRAMES if name not in {"findings", "traffic"}} == {True}


def test_an_unreachable_replica_is_a_row() -> None:
    rows = poll_fleet(["http://127.0.0.1:9"]).frames.replicas

    assert rows[["state", "failure"]].to_numpy().tolist() == [["down", "refused"]]


def test_errors_have_the_cause_and_the_action(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("[]")
    with pytest.raises(OptionsError, match=r"expected a list of addresses; write \['http://a'\]"):
        poll_fleet("http://a")
    with pytest.raises(OptionsError, match="targets: "):
        poll_fleet(["http://a:b:c"])
    with pytest.raises(OptionsError, match="No targets: name addresses, or list them in fleet"):
        poll_fleet()
    with pytest.raises(SnapshotError, match=r"no\.json: "):
        load_fleet(tmp_path / "no.json")
    with pytest.raises(SnapshotError, match=r"none\.json: No such file or directory$"):
        load_fleet(tmp_path / "none.json")
    with pytest.raises(TypeError, match="targets: expected addresses as strings"):
        poll_fleet([1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="expected two fleets"):
        compare_fleets(built(), "monday.json")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dashboard.nothing


def test_neither_the_commands_nor_the_provider_load_pandas() -> None:
    root = Path(dashboard.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", LAZY], cwd=root, check=False).returncode == 0
