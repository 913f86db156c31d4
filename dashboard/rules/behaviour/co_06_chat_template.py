"""CO-06: replicas of one pool turn a chat into other prompts."""

from collections.abc import Iterator
from dataclasses import replace

from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

DIGEST = "chat_template_digest"
CONTENT_FORMAT = "chat_template_content_format"
FOUND_BY_ITSELF = '"auto"'  # vLLM finds the format in the template
SAME_FILE = (
    Snippet("flag", "--chat-template /etc/vllm/chat_template.jinja"),
    Snippet(
        "yaml",
        "volumes:\n- name: chat-template\n  configMap:\n    name: chat-template\n"
        "volumeMounts:\n- name: chat-template\n  mountPath: /etc/vllm",
    ),
)


@rule(
    id="CO-06",
    name="chat-template-differs",
    family=Family.BEHAVIOUR,
    severity={
        ImpactContext.PREFIX_HASH: Severity.CRITICAL,
        ImpactContext.KV_EVENTS: Severity.CRITICAL,
        ImpactContext.MODEL: Severity.CRITICAL,
    },
    needs=(DIGEST, CONTENT_FORMAT),
)
def chat_template_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool turn the same chat into different prompts.

    The template itself is not shown, only the digest of its text. The dashboard's provider tells it, no other source.

    Why it matters:
        - prefix-hash: The router's own rendering can match one of the templates at most: on the other replicas it
          never finds the prefix that they hold, and the same chat gets other answers there.
        - kv-events: The same chat becomes other tokens on each side, so blocks that one replica holds are never found
          for prompts that another rendered, and answers depend on the replica.
        - any pool: The same chat becomes another prompt, so answers depend on the replica that the request reaches.

    How to fix:
        Mount one template file into every replica of the pool, from one ConfigMap, and name it with `--chat-template`;
        set `--chat-template-content-format` where it is not found by itself. A router that renders chats needs the same
        file.

    Exceptions:
        Pools that only serve plain completions use no template: disable the rule for them. `auto` and the format that
        it finds in the template are the same, but no replica tells which one that is: such a difference is reported as
        assumed.

    Evidence:
        - vllm/entrypoints/launchers/cli_args.py (the options; they are no part of the engine's configuration)
        - ai-dynamo/dynamo#2934 (checksums of the template files)
        - vllm-project/production-stack#1045

    Example:
        The template was mended on the model's hub; replicas that started since then render the system prompt with one
        line break less. Nothing of what the others hold in their caches matches any more.
    """
    nouns = {DIGEST: "chat template (digest of its text)"}
    yield from (replace(draft, remedy=_same_file(draft.remedy)) for draft in drift(pool, nouns))
    for draft in drift(pool, {CONTENT_FORMAT: "format of message contents"}):
        may_be_equal = any(each.value == FOUND_BY_ITSELF for each in draft.evidence)
        yield replace(draft, assumptions=("auto resolves to another format",)) if may_be_equal else draft


def _same_file(remedy: Remedy) -> Remedy:
    """Replace the sentence: a digest cannot be set, the file can."""
    sentence = "Start every replica of the pool with the same template file."
    return Remedy(sentence, (*SAME_FILE, *remedy.snippets))
