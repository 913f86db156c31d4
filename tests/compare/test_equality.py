"""Values that mean the same: revisions of models and tokenizers, by hub id, snapshot and folder."""

from typing import Any

from dashboard.compare.equality import NOT_SET, Revision, counted, loaded_revision
from dashboard.fleet import Setting, SettingValue, State
from tests import builders
from vllm_fleet_provider.shared.identity import SNAPSHOT_PATHS

MODEL, REVISION = "model_config.model", "model_config.revision"
TOKENIZER, TOKENIZER_REVISION = "model_config.tokenizer", "model_config.tokenizer_revision"
ABC = SettingValue('"abc"', State.REPORTED)


def settings(**values: Any) -> dict[str, Setting]:
    return {path: builders.setting(value) for path, value in values.items()}


def test_the_loaded_revision_is_that_of_the_snapshot_else_the_configured_one() -> None:
    snapshot = settings(**{SNAPSHOT_PATHS[MODEL]: "abc", REVISION: None})

    assert loaded_revision(snapshot) == Revision(ABC, is_pinned=False)
    assert loaded_revision(settings(**{REVISION: "abc"})) == Revision(ABC, is_pinned=True)
    assert loaded_revision(settings(**{REVISION: "main"})) == Revision(NOT_SET, is_pinned=True)
    assert loaded_revision({}) is None, "a section that is null has no revision"


def test_a_tokenizer_of_a_snapshot_has_its_commit_and_a_folder_has_no_revision() -> None:
    snapshot = settings(**{TOKENIZER: "org/llama", SNAPSHOT_PATHS[TOKENIZER]: "abc"})

    assert counted(TOKENIZER_REVISION, NOT_SET, snapshot) == ABC
    assert counted(TOKENIZER_REVISION, NOT_SET, settings(**{TOKENIZER: "llama"})) is None
    assert counted(TOKENIZER_REVISION, ABC, settings(**{TOKENIZER: "llama"})) == ABC
    assert counted(TOKENIZER_REVISION, NOT_SET, settings(**{TOKENIZER: "org/llama"})) == NOT_SET
