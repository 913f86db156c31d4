"""Where the reports of one replica's engines meet: one report per DP rank, and who disagrees about its tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dashboard.fleet import Contradiction, EngineReport, Source
from dashboard.vllm.canonical import setting
from dashboard.vllm.schemas.recent import Recent

TOKENS = "cache_config.kv_cache_size_tokens"

# These tell vLLM's own tokens; others multiply blocks by block_size, which is too much for hybrid models.
TELLS_TOKENS = frozenset({Source.PROVIDER, Source.SERVER_INFO, Source.METRICS})
# Of these it is known whether their blocks are one engine's or the sum of all.
TELLS_BLOCKS = frozenset({Source.PROVIDER, Source.METRICS})

SettingValue = tuple[Source, tuple[EngineReport, ...]]


class Met(NamedTuple):
    """One report per DP rank, and what the sources contradict each other in."""

    engines: tuple[EngineReport, ...]
    contradictions: tuple[Contradiction, ...]


def meet(told: tuple[SettingValue, ...]) -> Met:
    """Put the reports of one DP rank together, the most trusted source first.

    Our provider counts the engines, else /metrics does, else what /server_info is configured with; a source that knows
    one engine only means the first, whatever rank it gives it.
    """
    return _known.get(told, lambda: _meet(told))


_known: Recent[Met] = Recent()


def _meet(told: Sequence[SettingValue]) -> Met:
    ranks = _ranks(told)
    merged = {rank: EngineReport(rank) for rank in ranks}
    for source, rank, report in _placed(told, ranks):
        merged[rank] = _together(merged[rank], _meant(source, report, len(ranks)))
    return Met(tuple(merged.values()), tuple(dict.fromkeys(_contradictions(told, ranks))))


def _ranks(told: Sequence[SettingValue]) -> tuple[int, ...]:
    for counts in (Source.PROVIDER, Source.METRICS):
        for source, reports in told:
            if source is counts:
                return tuple(report.dp_rank for report in reports)
    for source, reports in told[:1]:
        return tuple(report.dp_rank for report in (reports if source is Source.SERVER_INFO else reports[:1]))
    return ()


def _placed(told: Iterable[SettingValue], ranks: Sequence[int]) -> Iterator[tuple[Source, int, EngineReport]]:
    """Yield every report with the rank that it means."""
    for source, reports in told:
        for place, report in enumerate(reports):
            if report.dp_rank in ranks:
                yield source, report.dp_rank, report
            elif not place:
                yield source, ranks[0], report


def _meant(source: Source, report: EngineReport, engines: int) -> EngineReport:
    """Return of a report what it can know."""
    if source not in TELLS_TOKENS:
        report = report._replace(kv_cache_size_tokens=None)
    return report if engines == 1 or source in TELLS_BLOCKS else report._replace(num_gpu_blocks=None)


def _together(known: EngineReport, report: EngineReport) -> EngineReport:
    told = EngineReport._make(more if had is None else had for had, more in zip(known, report, strict=True))
    return told if told.num_gpu_blocks is None else told._replace(blocks_of_all=None)


def _contradictions(told: Sequence[SettingValue], ranks: Sequence[int]) -> Iterator[Contradiction]:
    """Yield who tells other tokens than the most trusted source does of the same engine.

    /metrics and /server_info tell those of the engine that answered first at start, which may be any of them
    (vllm/v1/engine/core_client.py, _apply_ready_response). A product with blocks is compared only where there is one
    engine: else nobody tells whether it is a sum.
    """
    kept = _kept_tokens(told, ranks)
    known = {tokens for tokens, _ in kept.values()}
    for source, rank, report in _placed(told, ranks):
        tokens = report.kv_cache_size_tokens
        comparable = rank in kept and (len(ranks) == 1 or source in TELLS_TOKENS)
        if comparable and tokens is not None and tokens not in known:
            most, teller = kept[rank]
            yield Contradiction(TOKENS, setting(TOKENS, most, teller), setting(TOKENS, tokens, source))


def _kept_tokens(told: Sequence[SettingValue], ranks: Sequence[int]) -> Mapping[int, tuple[int, Source]]:
    """Return per rank the tokens that count, and who tells them."""
    kept: dict[int, tuple[int, Source]] = {}
    for source, rank, report in _placed(told, ranks):
        if source in TELLS_TOKENS and report.kv_cache_size_tokens is not None:
            kept.setdefault(rank, (report.kv_cache_size_tokens, source))
    return kept
