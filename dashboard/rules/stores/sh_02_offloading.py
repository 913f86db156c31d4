"""SH-02: replicas of one pool keep KV cache outside of their GPUs differently."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.connectors import CONNECTOR, EXTRA, ROLE, value
from dashboard.rules.domain import OFFLOADING, ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Remedy, Severity
from dashboard.rules.holders import NOT_SET
from dashboard.rules.registry import rule
from dashboard.rules.spelled_out import spelled_out
from dashboard.rules.subject import PoolSubject

SIZE, BACKEND = "cache_config.kv_offloading_size", "cache_config.kv_offloading_backend"
NOUNS = {SIZE: "size of offloaded KV cache in GiB", BACKEND: "offloading backend"}
OPTIONS = {
    "cpu_bytes_to_use": "CPU memory for KV cache in bytes",
    "secondary_tiers": "list of tiers below CPU memory",
}
BYTES = f"{EXTRA}.cpu_bytes_to_use"
PROMPT_ONLY = "offload_prompt_only"
OFFLOADS, BOTH = SettingValue(f'"{OFFLOADING}"', State.REPORTED), SettingValue('"kv_both"', State.REPORTED)
REMOVE = (
    "Remove the connector that offloads (`--kv-transfer-config`) from these replicas, and restart them: without its "
    "options alone it does not start."
)
YES = SettingValue("true", State.REPORTED)  # the default


@rule(
    id="SH-02",
    name="offloading-differs",
    family=Family.STORES,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(SIZE, CONNECTOR),
)
def offloading_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool keep KV cache outside of their GPUs differently.

    Why it matters:
        - any pool: The replicas with less room forget prompts earlier than those with more, and a router that takes
          all for equal sends them requests for what they no longer hold. One that offloads prompts only cannot give
          others what it generated.

    How to fix:
        Give all replicas of the pool the same size, backend and tiers.

    Exceptions:
        Hosts with different memory, on purpose: make a pool for each kind, or suppress the finding.

    Evidence:
        - vllm/config/cache.py (size and backend)
        - vllm/config/vllm.py (the connector that they bring about)
        - vllm/v1/kv_offload/base.py (offload_prompt_only)

    Example:
        One replica was started with `--kv-offloading-size 64` to try it out, and stayed in the pool.
    """
    drafts = list(drift(pool, NOUNS, _where_sized))
    # A size brings the bytes with it: what follows is not said twice.
    if drafts:
        yield from drafts
        return
    spelled = spelled_out(pool, (*OPTIONS, PROMPT_ONLY))
    for draft in drift(spelled, {f"{EXTRA}.{name}": noun for name, noun in OPTIONS.items()}):
        yield replace(draft, remedy=_with_connector(pool, draft))
    yield from drift(spelled, {f"{EXTRA}.{PROMPT_ONLY}": "setting offload_prompt_only"}, _by_default)


def _with_connector(pool: PoolSubject, draft: Draft) -> Remedy:
    """Return the remedy with the connector that the options belong to, where one side has none.

    An OffloadingConnector without cpu_bytes_to_use does not start (vllm/v1/kv_offload/cpu/spec.py).
    """
    given = {each.is_reference: each for each in draft.evidence if each.path == BYTES}
    if given.keys() != {True, False}:
        return draft.remedy
    if given[True].state is State.NULL:
        return Remedy(REMOVE)
    known = {replica: told for told, ids in pool.values(CONNECTOR).items() for replica in ids}
    if given[False].state is not State.NULL or known.get(given[True].replicas[0]) != OFFLOADS:
        return draft.remedy
    connector = [remedy.pasteable(CONNECTOR, OFFLOADS), remedy.pasteable(ROLE, BOTH)]
    return remedy.of_snippets([*connector, *draft.remedy.snippets], draft.remedy.sentence)


def _where_sized(told: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Take a size, and a backend where there is a size; without one nothing is offloaded, whatever the backend."""
    return told if value(settings, SIZE) is not None else NOT_SET


def _by_default(told: SettingValue, _settings: Mapping[str, Setting]) -> SettingValue:
    return YES if told.state is State.NULL else told
