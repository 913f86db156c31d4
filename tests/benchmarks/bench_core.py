"""Processor time of the core: reading known answers, and building the fleet of one poll.

Run it with `python -m tests.benchmarks.bench_core`. Figures are the minimum of several rounds. The first poll merges
every document; later polls reuse merged documents.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.fleet import Snapshot
from dashboard.rules.catalogue import ALL_RULES
from dashboard.views.setting import SettingFilter, setting_report
from dashboard.views.settings import setting_values, settings_report
from dashboard.vllm import canonical
from dashboard.vllm.reading import read
from tests.benchmarks.measures import ROUNDS, Row, best, print_table
from tests.captured import AT, INFERENCE_CONFIG, METRICS, MODELS, SERVER_INFO, VERSION, capture
from tests.captured import snapshot as captured_snapshot
from tests.polled_fleets import build_fleet

PATHS = (METRICS, VERSION, MODELS, SERVER_INFO, INFERENCE_CONFIG)
FEW, MANY, DOCUMENTS, POOLS = 1_000, 5_000, 40, 8
SECONDS, GROWTH, TIMES_JSON = 0.5, 2.5, 3.3  # the budgets; the last one is 0.5 ms where json.loads takes 0.15 ms
SEARCH = 0.1  # seconds of a search


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    answers = captured()
    many = [snapshot(number, answers) for number in range(MANY)]
    gc.collect()
    gc.freeze()
    few_first, many_first = first_poll(many[:FEW]), first_poll(many)
    few_next, many_next = _build(many[:FEW]), _build(many)
    few_evaluated, many_evaluated = _evaluate(many[:FEW]), _evaluate(many)
    bodies = [_server_info(json.loads(answers[SERVER_INFO]), number) for number in range(FEW)]
    parsing = best(lambda: [json.loads(body) for body in bodies])
    reading = best(lambda: [read(SERVER_INFO, body) for body in bodies])
    metrics = best(lambda: [read(METRICS, answers[METRICS]) for _ in range(FEW)])
    rows = (
        (f"fleet of {FEW:,} replicas in {DOCUMENTS} documents, first poll, s", few_first, SECONDS),
        (f"fleet of {MANY:,} in the same {DOCUMENTS}, first poll, times the above", many_first / few_first, GROWTH),
        (f"fleet of {FEW:,}, next poll, s", few_next, SECONDS),
        (f"fleet of {MANY:,}, next poll, s", many_next, SECONDS * GROWTH),
        (f"of it {len(ALL_RULES)} rules over {FEW:,} replicas in {POOLS} pools, s", few_evaluated, SECONDS),
        (f"of it {len(ALL_RULES)} rules over {MANY:,}, s", many_evaluated, SECONDS * GROWTH),
        *_settings(fleet_of(many[:FEW])),
        *_settings(fleet_of(many)),
        (
            f"{FEW:,} /server_info of {len(bodies[0]) / 1000:.0f} KB, known, times json.loads of them",
            reading / parsing,
            TIMES_JSON,
        ),
        (
            f"{FEW:,} /metrics of {len(answers[METRICS]) / 1000:.0f} KB, known, times the same",
            metrics / parsing,
            TIMES_JSON,
        ),
    )
    print(f"json.loads takes {parsing / FEW * 1_000:.2f} ms for one /server_info; best of {ROUNDS}, processor time\n")
    return print_table(Row(*row) for row in rows)


def _settings(fleet: Fleet) -> Iterator[tuple[str, float, float]]:
    number = len(fleet.replicas)
    values = setting_values(fleet)
    path = "cache_config.block_size"
    yield f"values of all settings of {number:,}, once a poll, s", best(lambda: setting_values(fleet)), SECONDS
    some = SettingFilter(label="zone=z1")
    yield f"the same with a new filter by label of {number:,}, s", best(lambda: setting_values(fleet, some)), SEARCH
    for words in ("", "block size 16"):
        search = SettingFilter(search=words)
        took = best(lambda search=search: settings_report(fleet, search, rows=values))  # type: ignore[misc]
        yield f"a search for “{words}” among them, s", took, SEARCH
    yield f"one setting of {number:,}, s", best(lambda: setting_report(fleet, path)), SEARCH


def first_poll(snapshots: Sequence[Snapshot]) -> float:
    """Return the seconds for a fleet with unknown documents."""

    def build() -> None:
        canonical.forget_unused()
        canonical.forget_unused()
        fleet_of(snapshots)

    return best(build)


def fleet_of(snapshots: Sequence[Snapshot]) -> Fleet:
    """Return the fleet of one poll."""
    return build_fleet("bench", snapshots, polled_at=AT, interval=timedelta(seconds=30))


def _build(snapshots: Sequence[Snapshot]) -> float:
    return best(lambda: fleet_of(snapshots))


def _evaluate(snapshots: Sequence[Snapshot]) -> float:
    fleet = fleet_of(snapshots)
    return best(lambda: inspected(fleet, AT))


def captured() -> Mapping[str, bytes]:
    """Return the answers of the captured server by path."""
    answers = capture("llama").answers
    return {path: answers[path] for path in PATHS}


def snapshot(number: int, answers: Mapping[str, bytes], turn: int = 0) -> Snapshot:
    """Return the snapshot of replica `number`: one of the documents of this turn, with its own identity settings."""
    bodies = {**answers, SERVER_INFO: _server_info(json.loads(answers[SERVER_INFO]), number, turn)}
    labels = {"pool": f"pool-{number % POOLS}", "zone": f"z{number % 3}"}
    return captured_snapshot(bodies, target=f"http://10.1.{number // 250}.{number % 250}:8000", labels=labels)


def _server_info(info: dict[str, Any], number: int, turn: int = 0) -> bytes:
    config = info["vllm_config"]
    config["instance_id"] = f"17723{number:014}"
    config["parallel_config"]["data_parallel_master_port"] = 20_000 + number
    config["model_config"]["seed"] = number % DOCUMENTS
    config["scheduler_config"]["max_num_seqs"] = 128 + turn + number % (DOCUMENTS // POOLS)
    return json.dumps(info).encode()


if __name__ == "__main__":
    sys.exit(main())
