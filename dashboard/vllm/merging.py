"""The sources of one replica merged: one document, one report per DP rank, and their contradictions."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from dashboard.fleet import Contradiction, Document, EngineReport, Setting, Source, State
from dashboard.vllm.canonical import RecentResults, setting
from dashboard.vllm.versions import EARLIEST, is_unsupported, release_before, span

MODEL = "model_config.model"
TOKENS = "cache_config.kv_cache_size_tokens"
ID_LENGTH = 12  # hex digits of the SHA-256 in a document's id
TRUST = {source: place for place, source in enumerate(Source)}
CONFIG_API_SHAPE = frozenset({Source.PROVIDER, Source.CONFIG_API})
COMPARABLE = frozenset({State.REPORTED, State.NULL})

# /kv_event_sources came with this release (vllm/entrypoints/serve/instrumentator/basic.py).
EVENT_SOURCES_SINCE = "0.32.0"
# They report the settings of the version that runs, and no others.
REPORTS_OWN = frozenset({Source.METRICS, Source.SERVER_INFO})

# These report vLLM's own tokens; others multiply blocks by block_size, which is too much for hybrid models.
REPORTS_TOKENS = frozenset({Source.PROVIDER, Source.SERVER_INFO, Source.METRICS})
# Whether their blocks are one engine's or the sum of all is known for these.
REPORTS_BLOCKS = frozenset({Source.PROVIDER, Source.METRICS})
COUNTS_ENGINES = frozenset({Source.SERVER_INFO, Source.GRPC})  # where neither of these does

Reports: TypeAlias = tuple[Source, tuple[EngineReport, ...]]


Contradictions: TypeAlias = tuple[Contradiction, ...]

# By the identity of the mappings, which replicas share; the value keeps them alive, so that no id is reused.
_documents: RecentResults[tuple[tuple[Mapping[str, Setting], ...], tuple[Document, Contradictions]]] = RecentResults()
_engines: RecentResults[tuple[tuple[EngineReport, ...], Contradictions]] = RecentResults()


def merge(replies: Sequence[Mapping[str, Setting]]) -> tuple[Document, Contradictions]:
    """Merge the settings of several replies, each path from the most trusted source; return also contradictions.

    Equal inputs give the same object: a thousand equal replicas are merged once.
    """
    inputs = tuple(settings for settings in replies if settings)
    return _documents.get(tuple(map(id, inputs)), lambda: (inputs, _merge(inputs)))[1]


def document_id(settings: Mapping[str, Setting]) -> str:
    """Return the first 12 hex digits of the SHA-256 of the settings' canonical JSON; sources do not count."""
    content = {path: [setting.value, setting.state] for path, setting in settings.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def version_of(settings: Mapping[str, Setting]) -> str | None:
    version = settings.get("version")
    return str(json.loads(version.value)) if version else None


def sections(settings: Mapping[str, Setting]) -> frozenset[str]:
    """Return every path with settings below it."""
    found: set[str] = set()
    for path in settings:
        for above in _above(path):
            if above in found:
                break
            found.add(above)
    return frozenset(found)


def _merge(replies: Sequence[Mapping[str, Setting]]) -> tuple[Document, Contradictions]:
    ordered = sorted(replies, key=lambda settings: TRUST[next(iter(settings.values())).source])
    merged: dict[str, Setting] = {}
    contradictions: list[Contradiction] = []
    for settings in ordered:
        taken = sections(merged)
        for path, other in settings.items():
            if (kept := _kept(path, merged, taken)) is None:
                merged[path] = other
            elif _contradict(path, kept, other):
                contradictions.append(Contradiction(path, kept, other))
            elif kept.state is State.UNKNOWN and kept.value == "null" and other.state is State.REPORTED:
                merged[path] = other  # the engine has set what the more trusted source cannot see
    version = version_of(merged)
    if version is not None and span(version) is None and (earliest := _earliest_release(ordered)) is not None:
        merged[EARLIEST] = earliest
    settings = {
        path: kept
        for path, kept in sorted(merged.items())
        # The configuration API has fields that a version lacks, and writes a value for each.
        if kept.source not in CONFIG_API_SHAPE or not is_unsupported(version, path)
    }
    return Document(document_id(settings), version, MappingProxyType(settings)), tuple(contradictions)


def _earliest_release(ordered: Sequence[Mapping[str, Setting]]) -> Setting | None:
    """Return the release that a build is as new as or newer than, by what it answers; None where that shows nothing.

    The names of settings are used, not their values.
    """
    bounds = []
    for settings in ordered:
        source = next(iter(settings.values())).source
        bound = EVENT_SOURCES_SINCE if source is Source.KV_EVENT_SOURCES else None
        bound = release_before(settings) if source in REPORTS_OWN else bound
        if bound is not None and (releases := span(bound)) is not None:
            bounds.append((releases, bound, source))
    newest = max(bounds, default=None)
    return None if newest is None else setting(EARLIEST, newest[1], newest[2])


def _kept(path: str, merged: Mapping[str, Setting], taken: frozenset[str]) -> Setting | None:
    """Return a more trusted source's setting of a path; a section that is null counts for the paths below it."""
    if path in merged:
        return merged[path]
    if path in taken:
        return Setting("{}", State.UNKNOWN, Source.SERVER_INFO)
    return next((merged[above] for above in _above(path) if above in merged), None)


def _contradict(path: str, kept: Setting, other: Setting) -> bool:
    """Return whether two values exclude each other. A model loaded from a URL has a folder with a different name."""
    is_copy = path == MODEL and "://" in other.value and "/" not in kept.value
    return kept.state in COMPARABLE and other.state in COMPARABLE and kept.value != other.value and not is_copy


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition(".")[0]:
        yield path


def merge_engines(reports: tuple[Reports, ...]) -> tuple[tuple[EngineReport, ...], Contradictions]:
    """Merge the reports of each DP rank, the most trusted source first; return also contradictions.

    Our provider counts the engines, else /metrics does, else /server_info or gRPC. /metrics counts also
    those that the provider did not reach. A source that knows one engine only means the first, whatever its rank.
    """
    return _engines.get(reports, lambda: _merge_engines(reports))


def _merge_engines(reports: Sequence[Reports]) -> tuple[tuple[EngineReport, ...], Contradictions]:
    ranks = _ranks(reports)
    merged = {rank: EngineReport(rank) for rank in ranks}
    for source, rank, report in _by_rank(reports, ranks):
        if source not in REPORTS_TOKENS:
            report = report._replace(kv_cache_size_tokens=None)  # noqa: PLW2901
        if len(ranks) > 1 and source not in REPORTS_BLOCKS:
            report = report._replace(num_gpu_blocks=None)  # noqa: PLW2901
        filled = (new if old is None else old for old, new in zip(merged[rank], report, strict=True))
        both = EngineReport._make(filled)
        merged[rank] = both if both.num_gpu_blocks is None else both._replace(blocks_of_all=None)
    return tuple(merged.values()), tuple(dict.fromkeys(_token_contradictions(reports, ranks)))


def _ranks(reports: Sequence[Reports]) -> tuple[int, ...]:
    counted = {source: tuple(report.dp_rank for report in engines) for source, engines in reports}
    provided, metrics = counted.get(Source.PROVIDER), counted.get(Source.METRICS)
    if provided is not None:
        return metrics if metrics is not None and set(provided) < set(metrics) else provided
    if metrics is not None:
        return metrics
    for source, engines in reports[:1]:
        return tuple(report.dp_rank for report in (engines if source in COUNTS_ENGINES else engines[:1]))
    return ()


def _by_rank(reports: Iterable[Reports], ranks: Sequence[int]) -> Iterator[tuple[Source, int, EngineReport]]:
    """Yield every report with the rank that it means."""
    for source, engines in reports:
        for place, report in enumerate(engines):
            if report.dp_rank in ranks:
                yield source, report.dp_rank, report
            elif not place:
                yield source, ranks[0], report


def _token_contradictions(reports: Sequence[Reports], ranks: Sequence[int]) -> Iterator[Contradiction]:
    """Yield the sources whose tokens differ from the most trusted source's of the same engine.

    /metrics and /server_info report those of the engine that answered first at start, which may be any of them
    (vllm/v1/engine/core_client.py, _apply_ready_response). A product with blocks is compared for a single engine only:
    otherwise it may be a sum.
    """
    kept: dict[int, tuple[int, Source]] = {}
    for source, rank, report in _by_rank(reports, ranks):
        if source in REPORTS_TOKENS and report.kv_cache_size_tokens is not None:
            kept.setdefault(rank, (report.kv_cache_size_tokens, source))
    known = {tokens for tokens, _ in kept.values()}
    for source, rank, report in _by_rank(reports, ranks):
        tokens = report.kv_cache_size_tokens
        comparable = rank in kept and (len(ranks) == 1 or source in REPORTS_TOKENS)
        if comparable and tokens is not None and tokens not in known:
            trusted, trusted_source = kept[rank]
            yield Contradiction(TOKENS, setting(TOKENS, trusted, trusted_source), setting(TOKENS, tokens, source))
