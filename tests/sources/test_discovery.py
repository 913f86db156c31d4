"""Discovery: each target once, in the order of the options, with its credentials."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.config import CredentialsOptions, FileSdOptions, Options, TargetOptions
from dashboard.fleet import MOST_CONFLICTS, Credentials, LabelConflict, Target
from dashboard.sources.discovery import Discovery, DiscoveryResult, SourceReads, discover_once
from dashboard.sources.source import Listing
from tests.builders import NOW


def options(folder: Path, *targets: object, **more: object) -> Options:
    file_sd = [{"files": [str(folder / "*.json")], **more}]
    return Options.model_validate({"targets": targets, "file_sd": file_sd})


def test_two_spellings_are_one_target_with_the_first_one_s_labels(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"targets": ["a:80"], "labels": {"pool": "file", "rack": "7"}}]')
    first = {"url": "HTTP://A", "labels": {"pool": "list"}, "credentials": {"token_env": "FIRST"}}
    second = {"url": "a", "labels": {"pool": "second", "name": "a"}, "credentials": {"token_env": "SECOND"}}
    assert discover_once(options(tmp_path, first, second)).targets == (
        Target("http://a:80", {"pool": "list", "name": "a", "rack": "7"}, Credentials(token_env="FIRST")),
    )


def test_a_label_on_which_two_sources_disagree_is_a_conflict_of_its_two_values(tmp_path: Path) -> None:
    for name, rack in (("a.json", "7"), ("b.json", "8")):
        (tmp_path / name).write_text(f'[{{"targets": ["a:80"], "labels": {{"pool": "chat", "rack": "{rack}"}}}}]')
    found = discover_once(options(tmp_path, {"url": "a", "labels": {"pool": "chat"}}))

    assert found.conflicts == (
        LabelConflict("http://a:80", "rack", "7", str(tmp_path / "a.json"), "8", str(tmp_path / "b.json")),
    )


def test_the_conflicts_of_a_whole_source_are_cut(tmp_path: Path) -> None:
    many = [f"10.0.{number // 200}.{number % 200}" for number in range(MOST_CONFLICTS + 10)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps([{"targets": many, "labels": {"pool": name}}]))

    assert len(discover_once(options(tmp_path)).conflicts) == MOST_CONFLICTS


def test_a_source_that_the_options_drop_is_closed_and_the_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"targets": ["a"]}]')
    before = Discovery(options(tmp_path, "b"))
    asyncio.run(before.discover())
    (tmp_path / "a.json").unlink()
    after = Discovery(options(tmp_path, "c"), before)

    assert [(each.id, each.stale) for each in asyncio.run(after.discover()).targets] == [
        ("http://c:80", False),
        ("http://a:80", True),
    ]


def test_a_target_is_stale_only_without_a_fresh_source(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"targets": ["a", "b"]}]')
    discovery = Discovery(options(tmp_path, "a"))
    asyncio.run(discovery.discover())
    file.unlink()
    assert [(target.id, target.stale) for target in asyncio.run(discovery.discover()).targets] == [
        ("http://a:80", False),
        ("http://b:80", True),
    ]
    assert len(discovery.found.failures) == 1
    file.write_text("[]")
    assert [target.id for target in asyncio.run(discovery.discover()).targets] == ["http://a:80"]
    assert not discovery.found.failures


ALL, OWN = CredentialsOptions(token_env="ALL"), CredentialsOptions(token_env="OWN")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, Credentials(token_env="ALL")),
        (OWN, Credentials(token_env="OWN")),
        (CredentialsOptions(), Credentials()),
    ],
)
def test_own_credentials_of_targets_and_files_replace_the_common_ones(
    tmp_path: Path, own: CredentialsOptions | None, expected: Credentials
) -> None:
    (tmp_path / "a.json").write_text('[{"targets": ["a"]}]')
    file_sd = FileSdOptions(files=(str(tmp_path / "a.json"),), credentials=own)
    target = TargetOptions(url="b", credentials=own)
    found = discover_once(Options(targets=(target,), file_sd=(file_sd,), credentials=ALL)).targets
    assert [each.credentials for each in found] == [expected] * 2


class Slow:
    """A source that answers when it may, or raises."""

    kind, name = "slow", "place"

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.reads = 0
        self.error: Exception | None = None

    async def read(self) -> list[Listing]:
        self.reads += 1
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return [Listing("place", (Target(f"http://{self.reads}:80"),))]


def with_slow() -> tuple[Discovery, Slow]:
    found, slow = Discovery(Options.model_validate({"targets": ["a"]})), Slow()
    found._readings["slow"] = SourceReads(slow)
    return found, slow


def test_a_slow_source_keeps_its_targets_until_its_answer_is_there() -> None:
    async def poll() -> None:
        discovery, slow = with_slow()
        slow.may_answer.set()
        assert ids(await discovery.discover(NOW, 0.0)) == ["http://a:80", "http://1:80"]  # the first waits
        slow.may_answer.clear()
        for _ in range(3):
            assert ids(await discovery.discover(NOW, 0.0)) == ["http://a:80", "http://1:80"]
        assert slow.reads == 2
        assert not discovery.found.failures
        slow.may_answer.set()
        assert ids(await discovery.discover(NOW)) == ["http://a:80", "http://2:80"]
        await discovery.aclose()

    asyncio.run(poll())


def test_an_internal_error_of_a_source_is_its_sentence_and_keeps_its_targets() -> None:
    async def poll() -> None:
        discovery, slow = with_slow()
        slow.may_answer.set()
        slow.error = TypeError("unhashable")
        assert ids(await discovery.discover(NOW)) == ["http://a:80"]
        assert discovery.found.failures == ("place: internal error TypeError",)
        slow.error = None
        assert ids(await discovery.discover(NOW)) == ["http://a:80", "http://2:80"]
        slow.error = TypeError("unhashable")
        for _ in range(2):
            found = await discovery.discover(NOW + timedelta(minutes=1))
            assert [(each.id, each.stale) for each in found.targets] == [("http://a:80", False), ("http://2:80", True)]
            assert found.failures == ("place: internal error TypeError; keeping its last targets (1), marked stale",)
            assert found.sources[-1].succeeded_at == NOW

    asyncio.run(poll())


def test_a_read_in_flight_ends_with_its_source() -> None:
    async def poll() -> None:
        discovery, slow = with_slow()
        slow.may_answer.set()
        await discovery.discover(NOW)
        slow.may_answer.clear()
        await discovery.discover(NOW, 0.0)
        await discovery.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(poll())


def ids(found: DiscoveryResult) -> list[str]:
    return [each.id for each in found.targets]
