"""What a fleet reports after the remedy of a finding was applied: what its snippets set, and what it removes."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboard.analysis.whatif.after import decides, document_after, replica_after
from dashboard.compare.encoding import lookup_value
from dashboard.compare.equality import NOT_SET
from dashboard.compare.sharing import DECIDING_PATHS
from dashboard.fleet import Document, Replica, SettingChange, SettingValue, State
from dashboard.rules.apply_method import FOLLOWS_FROM
from dashboard.rules.capacity.graphs import LARGEST, SIZES
from dashboard.rules.connector_options import CONNECTOR, EXTRA
from dashboard.rules.findings import Finding, Inspection, Snippet
from dashboard.rules.remedy import PACKAGES, SERVED_NAMES, lever
from dashboard.rules.subject import setting_value
from dashboard.vllm.field_reference import known_flags
from dashboard.vllm.merging import document_id

Values = Mapping[str, SettingValue]
PATHS = {flag: path for path, flag in known_flags().items()} | {"--served-model-name": SERVED_NAMES}
IMAGE = re.compile(r"image: \S+:v(\S+)")
PACKAGE = re.compile(r"pip install '?(\w+)==([^']+)'?")
EVERYWHERE = "every replica"
OWN = "$"  # of a value that is each replica's own: `$POD_IP`
# What vLLM derives from other settings: unknown after one of them changed.
_HASHING = ("version", "cache_config.prefix_caching_hash_algo", "env.PYTHONHASHSEED")
FOLLOWS = {
    **FOLLOWS_FROM,
    "seed_policy": _HASHING,
    "hash_lookahead_tokens": ("speculative_config.method", "speculative_config.disable_lookahead_block_hashes"),
    "cache_config.hash_block_size": ("cache_config.block_size",),
    "compilation_config.mode": ("model_config.enforce_eager",),
    "compilation_config.cudagraph_mode": ("model_config.enforce_eager",),
    SIZES: (*FOLLOWS_FROM[SIZES], LARGEST),
    CONNECTOR: ("cache_config.kv_offloading_size",),
    f"{EXTRA}.cpu_bytes_to_use": ("cache_config.kv_offloading_size",),
}


def named_values(finding: Finding) -> Iterator[Values]:
    """Yield the values that a remedy names: once, or with `any_of` once per snippet. Nothing for what is no setting."""
    removed = {
        each.path: NOT_SET
        for each in finding.evidence
        if each.is_reference and each.state is State.NULL and _is_removed(each.path, finding.remedy.sentence)
    }
    snippets = finding.remedy.snippets
    for group in [(each,) for each in snippets] if finding.remedy.any_of else [snippets]:
        values = dict(removed)
        for snippet in group:
            values |= {path: setting_value(value) for path, value in _values(snippet)}
        if values:
            yield values


def remedies(inspection: Inspection, replicas: Sequence[Replica]) -> Iterator[tuple[Finding, Values, set[str]]]:
    """Yield a finding for each remedy, its values and the replicas to change: of equal remedies of a rule all."""
    found: dict[tuple[object, ...], tuple[Finding, Values, set[str]]] = {}
    for finding in inspection.findings:  # the worst first
        everywhere = {each.id for each in replicas if each.pool in finding.pools}
        concerned = everywhere if EVERYWHERE in finding.remedy.sentence else finding.replicas
        for values in named_values(finding):
            key = (finding.rule, *sorted(values.items()))
            found.setdefault(key, (finding, values, set()))[2].update(concerned)
    yield from found.values()


def _is_removed(path: str, sentence: str) -> bool:
    return re.search(rf"[Rr]emove[^.;]*{re.escape(lever(path))}", sentence) is not None


def applied(
    concerned: Collection[str], values: Values, replicas: Sequence[Replica], documents: Mapping[str, Document]
) -> tuple[list[Replica], list[Document]]:
    """Return the fleet with these values on some replicas. What vLLM derives from them becomes unknown."""
    derived = {path for path, sources in FOLLOWS.items() if not values.keys().isdisjoint(sources)} - values.keys()
    after: list[Replica] = []
    known = dict(documents)
    for replica in replicas:
        if replica.id not in concerned or replica.document is None:
            after.append(replica)
            continue
        document = documents[replica.document]
        changes = [
            SettingChange(path, lookup_value(document.settings, path) or NOT_SET, _as_reported(path, value, documents))
            for path, value in values.items()
        ]
        changed = document_after(document, changes, document.settings)
        settings = {path: each for path, each in changed.settings.items() if path not in derived}
        changed = replace(changed, id=document_id(settings), settings=settings)
        known[changed.id] = changed
        after.append(_restarted(replica, changed, changes, values))
    return after, [known[key] for key in sorted({each.document for each in after if each.document})]


def _restarted(replica: Replica, document: Document, changes: Sequence[SettingChange], values: Values) -> Replica:
    """Return a replica after its restart: its hashes stay, unless a setting that decides them changed."""
    restarted = replica_after(replica, document, changes, ())
    if not values.keys().isdisjoint(DECIDING_PATHS) or any(map(decides, values)):
        restarted = replace(restarted, engines=(), kv_cache_groups=())
    else:
        restarted = replace(restarted, engines=replica.engines)
    images = {name for name in replica.labels if name.startswith("image_")} if "version" in values else set()
    return replace(restarted, labels={name: each for name, each in replica.labels.items() if name not in images})


def _as_reported(path: str, value: SettingValue, documents: Mapping[str, Document]) -> SettingValue:
    """Return a variable's value with the type that replicas report: a switch for 0 and 1, text for a number."""
    known = (lookup_value(each.settings, path) for each in documents.values())
    spellings = {each.value: each for each in known if each is not None and each.state is State.REPORTED}
    if path.startswith("env.") and value.value in ("0", "1") and spellings.keys() & {"true", "false"}:
        return setting_value(value.value == "1")
    return spellings.get(json.dumps(value.value), value)


def _values(snippet: Snippet) -> Iterator[tuple[str, Any]]:
    if snippet.kind == "flag" and OWN not in snippet.text:
        yield from _flags(shlex.split(snippet.text))
    elif snippet.kind == "env" and OWN not in snippet.text:
        action, words = shlex.split(snippet.text)[:2]
        name, _, text = words.partition("=")
        yield f"env.{name}", _native(text) if action == "export" else None
    elif match := IMAGE.fullmatch(snippet.text):
        yield "version", match[1]
    elif match := PACKAGE.fullmatch(snippet.text):
        yield next(path for path, package in PACKAGES.items() if package == match[1]), match[2]


def _flags(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    flags = [place for place, word in enumerate(words) if word.startswith("--")]
    for start, end in zip(flags, [*flags[1:], len(words)], strict=True):
        flag, values = words[start], [_native(word) for word in words[start + 1 : end]]
        section, _, rest = flag.partition(".")
        is_off = section not in PATHS and section.startswith("--no-")
        path = PATHS.get(f"--{section.removeprefix('--no-')}" if is_off else section)
        if path is None:
            continue
        path = f"{path}.{rest}" if rest else path
        if path == EXTRA:
            yield from ((f"{EXTRA}.{name}", value) for name, value in values[0].items())
        elif path == SERVED_NAMES or len(values) > 1:
            yield path, values
        else:
            yield path, values[0] if values else not is_off


def _native(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word
