"""CO-05 and CO-06: sampling defaults and chat templates."""

import json
from collections.abc import Iterator
from dataclasses import replace

from dashboard.compare.equality import AUTO
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import SettingValue
from dashboard.rules.connector_options import native
from dashboard.rules.differences import pool_differences
from dashboard.rules.findings import Draft, Remedy, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject
from dashboard.rules.value_equivalence import assume_if_auto, empty_is_unset
from vllm_fleet_provider.shared.identity import is_folder

MODEL = "model_config.model"
GENERATION_CONFIG = "model_config.generation_config"
OVERRIDE = "model_config.override_generation_config"
DIGEST = "chat_template_digest"
CONTENT_FORMAT = "chat_template_content_format"
SAME_FILE = (
    Snippet("flag", "--chat-template /etc/vllm/chat_template.jinja"),
    Snippet(
        "yaml",
        "volumes:\n- name: chat-template\n  configMap:\n    name: chat-template\n"
        "volumeMounts:\n- name: chat-template\n  mountPath: /etc/vllm",
    ),
)


@rule("CO-05", needs=(GENERATION_CONFIG, OVERRIDE))
def sampling_defaults_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different sampling defaults.

    An empty override equals none. `auto` equals the model's own folder or id.

    Why it matters:
        - any pool (warning): A request without temperature, top_p, penalties or token limit uses the replica's
          defaults, so the same prompt gets answers in a different style or length.

    How to fix:
        Set the same `--generation-config` and `--override-generation-config` on every replica of the pool.

    Exceptions:
        Where every client sends all sampling parameters, the defaults are never used: disable the rule.

    Evidence:
        - vllm/config/model.py (`auto` reads the model's own file, `vllm` reads none, overrides apply last)

    Example:
        Four replicas use the model's defaults, with temperature 0.6. One runs with `--generation-config vllm`, where
        the temperature is 1.0.
    """
    yield from pool_differences(pool, {GENERATION_CONFIG: _sources(pool)})
    yield from pool_differences(pool, [OVERRIDE], empty_is_unset)


def _sources(pool: PoolSubject) -> Holders:
    """Group replicas by source of the defaults; the model's own folder or id counts as `auto`."""
    whole, part = pool.identity(MODEL), pool.of_documents(lambda settings: native(settings, MODEL))

    def is_own(replica: str, source: object) -> bool:
        names = (whole.get(replica), None if is_folder(whole.get(replica)) else part[replica])
        return isinstance(source, str) and source.rstrip("/") in [str(name).rstrip("/") for name in names if name]

    values: dict[str, SettingValue] = {}
    for value, ids in pool.values(GENERATION_CONFIG).items():
        source = json.loads(value.value)
        values |= {each: AUTO if value != AUTO and is_own(each, source) else value for each in ids}
    return group_by_value(values)


@rule("CO-06", needs=(DIGEST, CONTENT_FORMAT))
def chat_template_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different chat templates.

    Compared is the digest of the template's text. Only the dashboard's provider reports it.

    Why it matters:
        - prefix-hash (critical): The router renders chats with one template. It never matches replicas with another
          one, which also answer differently.
        - kv-events (critical): The same chat has different tokens on each side, so blocks are never found for prompts
          that another replica rendered. Answers depend on the replica.
        - any pool (critical): The same chat becomes a different prompt, so answers depend on the replica.

    How to fix:
        Mount one template file into every replica of the pool, from one ConfigMap, and set it with `--chat-template`;
        set `--chat-template-content-format` where it is not detected. A router that renders chats needs the same file.

    Exceptions:
        Pools that only serve plain completions use no template: disable the rule for them. `auto` may equal the other
        format, because no replica reports what it resolves to: such a difference is assumed.

    Evidence:
        - vllm/entrypoints/launchers/cli_args.py (the options; they are not part of the engine's configuration)
        - ai-dynamo/dynamo#2934 (checksums of the template files)
        - vllm-project/production-stack#1045

    Example:
        The template was fixed on the model's hub. Replicas that started since then render the system prompt with one
        line break less, and match no cached prefix of the others.
    """
    sentence = "Start every replica of the pool with the same template file."
    for draft in pool_differences(pool, [DIGEST]):
        yield replace(draft, remedy=Remedy(sentence, (*SAME_FILE, *draft.remedy.snippets)))
    for draft in pool_differences(pool, [CONTENT_FORMAT]):
        yield assume_if_auto(draft, "auto resolves to a different format")
