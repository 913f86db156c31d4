"""The series `vllm_fleet_config_info` on vLLM's own /metrics: digests of the configuration of each engine."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vllm_fleet_provider.answer import answer
from vllm_fleet_provider.gathering import logger
from vllm_fleet_provider.shared.digests import HELP, SERIES, EngineDigests, digest_adapters, digest_answer
from vllm_fleet_provider.shared.inference_config import InferenceConfigReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import GaugeMetricFamily, Metric

    from vllm_fleet_provider.answer import GatheredAnswers

SEVERAL_PROCESSES = "PROMETHEUS_MULTIPROC_DIR"  # vllm/v1/metrics/prometheus.py, setup_multiprocess_prometheus


class ConfigInfo:
    """A collector of the Prometheus client: one series per engine, none while the engines have not answered.

    `read` returns the description of the engines, if there is one, and the loaded adapters, if known. It is called at
    each scrape, in any thread; the digests of settings are computed once for a description.
    """

    def __init__(self, read: Callable[[], tuple[GatheredAnswers | None, Sequence[Mapping[str, Any]] | None]]) -> None:
        self._read = read
        self._known: tuple[GatheredAnswers | None, tuple[EngineDigests, ...]] = (None, ())
        self._has_failed = False

    def describe(self) -> list[Metric]:
        """Return the metric without series: else the client collects it when it is registered."""
        return [_metric(())]

    def collect(self) -> list[Metric]:
        """Return the metric. Errors are logged once, never raised into vLLM."""
        try:
            return [_metric(self._digests())]
        except Exception:  # noqa: BLE001  logged once, never raised into vLLM
            if not self._has_failed:
                logger.exception("%s could not be computed", SERIES)
            self._has_failed = True
            return []

    def _digests(self) -> tuple[EngineDigests, ...]:
        gathered, adapters = self._read()
        if gathered is not self._known[0]:
            self._known = gathered, _digest_engines(gathered) if gathered else ()
        loaded = None if adapters is None else digest_adapters((one["name"], one["path"]) for one in adapters)
        return tuple(each._replace(adapters=loaded) for each in self._known[1])


def expose(info: ConfigInfo) -> None:
    """Add a collector to this process's /metrics. Errors are logged, never raised into vLLM.

    Several API servers share files of samples, and each scrape reads them with a new registry
    (prometheus_client/multiprocess.py, prometheus_fastapi_instrumentator). A file keeps series that are gone, so the
    series of the API server that answers are added to what it reads.
    """
    try:
        if SEVERAL_PROCESSES in os.environ:
            _extend(import_module("prometheus_client.multiprocess").MultiProcessCollector, info)
        else:
            import_module("prometheus_client").REGISTRY.register(info)
    except Exception:  # noqa: BLE001  the server must start anyway
        logger.exception("%s is not exported", SERIES)


def _extend(reader: Any, info: ConfigInfo) -> None:
    collect = reader.collect

    def collect_all(self: Any) -> Iterator[Metric]:
        yield from collect(self)
        yield from info.collect()

    reader.collect = collect_all


def _digest_engines(gathered: GatheredAnswers) -> tuple[EngineDigests, ...]:
    """Return the digests of each engine; none where two engines claim one rank."""
    alone = [replace(gathered, engines=(one,)) for one in gathered.engines]  # an answer lists all engines
    return tuple(map(_digest_engine, alone)) if len(set(gathered.ranks)) == len(alone) else ()


def _digest_engine(gathered: GatheredAnswers) -> EngineDigests:
    (rank,) = gathered.ranks
    try:
        body = answer(gathered, None, rank, full=True).body
        return digest_answer(InferenceConfigReply.model_validate_json(body)) or EngineDigests(rank)
    except Exception:  # noqa: BLE001  the other engines still have theirs
        logger.exception("the configuration of engine %d has no digest", rank)
        return EngineDigests(rank)


def _metric(digests: Sequence[EngineDigests]) -> Metric:
    family = import_module("prometheus_client.core").GaugeMetricFamily
    metric: GaugeMetricFamily = family(SERIES, HELP, labels=EngineDigests._fields)
    for each in digests:
        metric.add_metric([str(label) if label is not None else "" for label in each], 1)
    return metric
