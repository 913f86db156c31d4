"""Snapshots show no secrets, also where the options named fewer when they were frozen."""

import json
import stat

import pytest

from dashboard.analysis.assembly import Fleet
from dashboard.documents.findings import findings_json
from dashboard.documents.fleet import fleet_json
from dashboard.documents.load import without_secrets
from dashboard.fleet import Note
from dashboard.store.packing import clean_content, content_of, describe_fleet, read_export_metadata, unpacked
from dashboard.store.snapshots import Snapshots
from tests.builders import NOW
from tests.saved_fleets import built_of_captures
from tests.store.folders import a_fleet, damage
from vllm_fleet_provider.shared.redaction import MARKER

SECRET = "SESAME7QX"
SETTINGS = {
    "kv_transfer_config.kv_connector_extra_config.pwd": SECRET,
    "additional_config.backend": {"signing_key": [SECRET], "limit": 3},
    "env.VLLM_ARGUMENTS": f"--port 8000 --api-key {SECRET}",
    "parallel_config.ray_runtime_env": json.dumps({"env_vars": {"WANDB_KEY": SECRET}}),
}


def written_before(fleet: Fleet) -> bytes:
    """Return the content of a fleet, with secrets that were not known when it was frozen."""
    saved = json.loads(content_of(fleet))
    part = {"state": "reported", "source": "server_info"}
    for path, value in SETTINGS.items():
        next(iter(saved["documents"].values()))[path] = {"value": value, **part}
    replica = saved["replicas"][0]
    replica["identity"]["kv_transfer_config.cookie"] = {"value": SECRET, **part}
    kept, other = {"value": SECRET, **part}, {"value": "y", **part}
    replica["contradictions"] = [{"path": "kv_transfer_config.auth", "kept": kept, "other": other}]
    saved["notes"] = [f"the password is {SECRET}, api_key={SECRET}"]
    return json.dumps(saved).replace("the password is SESAME7QX, ", "").encode()


@pytest.fixture
def old(store: Snapshots) -> str:
    """Return the id of a snapshot with secrets in it and in a note."""
    content = written_before(built_of_captures())
    note = Note(text=f"try https://ana:{SECRET}@host", owner=f"token={SECRET}")
    metadata = describe_fleet(built_of_captures(), "x", NOW)
    key = store.keep(content, metadata).id
    damage(store, key, metadata=metadata.model_copy(update={"notes": {"finding": note}}).model_dump_json().encode())
    return key


def output_of(store: Snapshots, key: str) -> bytes:
    """Return all output of a snapshot."""
    fleet = store.fleet(key)
    export = store.export(key)
    saved = (fleet_json(fleet, NOW, full=True), findings_json(fleet, NOW), unpacked(export))
    return b"".join(
        (*saved, repr(store.listed()).encode(), repr(read_export_metadata(export)).encode(), repr(vars(fleet)).encode())
    )


def test_no_output_of_an_earlier_snapshot_has_a_secret(store: Snapshots, old: str) -> None:
    assert SECRET.encode() not in output_of(store, old)
    assert MARKER.encode() in output_of(store, old)


def test_the_database_and_its_folder_are_private(store: Snapshots) -> None:
    store.save(a_fleet(), "x", NOW)

    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in store.folder.iterdir()} == {0o600}


def test_content_without_secrets_is_unchanged(demo_fleet: Fleet) -> None:
    for fleet in (demo_fleet, built_of_captures(), a_fleet()):
        assert clean_content(content_of(fleet)) == content_of(fleet)


@pytest.mark.parametrize(
    "saved",
    [
        3,
        [f"api_key={SECRET}"],
        {"documents": [f"api_key={SECRET}"], "replicas": {"pwd": SECRET}},
        {"documents": {"a": {"x.pwd": SECRET}, "b": [f"api_key={SECRET}"]}, "replicas": [{"contradictions": 3}]},
        {"replicas": [{"contradictions": [f"api_key={SECRET}", {"path": "x.pwd", "kept": SECRET}], "pwd": SECRET}]},
        {"replicas": [{"identity": [f"api_key={SECRET}"]}, f"api_key={SECRET}"]},
    ],
)
def test_content_of_another_shape_is_redacted(saved: object) -> None:
    assert SECRET.encode() not in without_secrets(json.dumps(saved).encode())
