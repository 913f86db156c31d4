"""What the core costs: reading answers that are already known, and deriving the fleet of one poll.

Run it with `python tests/benchmarks/bench_core.py`. The figures are the best of some rounds: what disturbs a
measurement only ever adds to it. Seconds are those of the processor. The first poll merges every document anew; later
polls remember what was merged, and then little is left but what each replica costs.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from dashboard.analysis.assembly import Fleet, build_fleet, inspected  # noqa: E402
from dashboard.fleet import ProbeResult, Snapshot, Target  # noqa: E402
from dashboard.rules.catalogue import ALL_RULES  # noqa: E402
from dashboard.sources.polling.probes import BY_PATH  # noqa: E402
from dashboard.vllm import canonical  # noqa: E402
from dashboard.vllm.reading import read  # noqa: E402

CAPTURE = ROOT / "tests" / "captures" / "0.32.0" / "llama"
FILES = {
    "/metrics": "metrics.txt",
    "/version": "version.json",
    "/v1/models": "models.json",
    "/server_info?config_format=json": "server_info.json",
    "/inference/v1/config?full=true": "inference_config.json",
}
SERVER_INFO = "/server_info?config_format=json"
FEW, MANY, DOCUMENTS, POOLS = 1_000, 5_000, 40, 8
ROUNDS = 5
SECONDS, GROWTH, TIMES_JSON = 0.5, 2.5, 3.3  # the budgets; the last one is 0.5 ms where json.loads takes 0.15 ms
AT = datetime(2026, 3, 2, 11, 42, 5, tzinfo=UTC)


def main() -> int:
    """Print a table of figure, budget and share of the budget; return 1 when one is over."""
    answers = captured()
    many = [snapshot(number, answers) for number in range(MANY)]
    gc.collect()
    gc.freeze()
    few_first, many_first = first_poll(many[:FEW]), first_poll(many)
    few_next, many_next = _build(many[:FEW]), _build(many)
    few_judged, many_judged = _judge(many[:FEW]), _judge(many)
    bodies = [_server_info(json.loads(answers[SERVER_INFO]), number) for number in range(FEW)]
    parsing = best(lambda: [json.loads(body) for body in bodies])
    reading = best(lambda: [read(SERVER_INFO, body) for body in bodies])
    metrics = best(lambda: [read("/metrics", answers["/metrics"]) for _ in range(FEW)])
    rows = (
        (f"fleet of {FEW:,} replicas in {DOCUMENTS} documents, first poll, s", few_first, SECONDS),
        (f"fleet of {MANY:,} in the same {DOCUMENTS}, first poll, times the above", many_first / few_first, GROWTH),
        (f"fleet of {FEW:,}, next poll, s", few_next, SECONDS),
        (f"fleet of {MANY:,}, next poll, s", many_next, SECONDS * GROWTH),
        (f"of it {len(ALL_RULES)} rules over {FEW:,} replicas in {POOLS} pools, s", few_judged, SECONDS),
        (f"of it {len(ALL_RULES)} rules over {MANY:,}, s", many_judged, SECONDS * GROWTH),
        (
            f"{FEW:,} /server_info of {len(bodies[0]) / 1000:.0f} KB, known, times json.loads of them",
            reading / parsing,
            TIMES_JSON,
        ),
        (
            f"{FEW:,} /metrics of {len(answers['/metrics']) / 1000:.0f} KB, known, times the same",
            metrics / parsing,
            TIMES_JSON,
        ),
    )
    print(f"json.loads takes {parsing / FEW * 1_000:.2f} ms for one /server_info; best of {ROUNDS}, processor time\n")
    print(f"{'':<64}{'measured':>10}{'budget':>8}{'share':>8}")
    for name, measured, budget in rows:
        print(f"{name:<64}{measured:>10.3f}{budget:>8.2f}{measured / budget:>8.0%}")
    return int(any(measured > budget for _, measured, budget in rows))


def first_poll(snapshots: Sequence[Snapshot]) -> float:
    """Return the seconds that a fleet takes whose documents were never seen."""

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


def _judge(snapshots: Sequence[Snapshot]) -> float:
    fleet = fleet_of(snapshots)
    return best(lambda: inspected(fleet, AT))


def best(work: Callable[[], object]) -> float:
    """Return the fewest seconds of the processor that some rounds of work take."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(ROUNDS))


def captured() -> Mapping[str, bytes]:
    """Return what the captured server answered, by path."""
    return {path: (CAPTURE / name).read_bytes() for path, name in FILES.items()}


def snapshot(number: int, answers: Mapping[str, bytes], turn: int = 0) -> Snapshot:
    """Return what replica `number` says: one of the documents, another in each turn, and an identity of its own."""
    bodies = {**answers, SERVER_INFO: _server_info(json.loads(answers[SERVER_INFO]), number, turn)}
    probes = {path: _result(path, body) for path, body in bodies.items()}
    labels = {"pool": f"pool-{number % POOLS}", "zone": f"z{number % 3}"}
    return Snapshot(Target(f"http://10.1.{number // 250}.{number % 250}:8000", labels), AT, probes)


def _result(path: str, body: bytes) -> ProbeResult:
    reading = read(path, body)
    return ProbeResult(path, BY_PATH[path].source, AT, 0.01, 200, len(body), reading.raw, reading.reply)


def _server_info(told: dict[str, Any], number: int, turn: int = 0) -> bytes:
    config = told["vllm_config"]
    config["instance_id"] = f"17723{number:014}"
    config["parallel_config"]["data_parallel_master_port"] = 20_000 + number
    config["model_config"]["seed"] = number % DOCUMENTS
    config["scheduler_config"]["max_num_seqs"] = 128 + turn + number % (DOCUMENTS // POOLS)
    return json.dumps(told).encode()


if __name__ == "__main__":
    sys.exit(main())
