"""Processor time of a review: freeze, open, compare, fix plan, baselines, report.

Run it with `python -m tests.benchmarks.bench_review`. Figures are relative to the first poll of the same replicas.
"""

import gc
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.changes import changes_between
from dashboard.analysis.plan import plan_of
from dashboard.documents.load import read_snapshot
from dashboard.fleet import Baseline, Snapshot
from dashboard.render.html import to_html
from dashboard.store.packing import content_of, packed
from dashboard.views.review import review_report
from dashboard.vllm import canonical
from tests.benchmarks.bench_core import DOCUMENTS, FEW, POOLS, captured, first_poll, fleet_of, snapshot
from tests.benchmarks.measures import Row, best, print_table
from tests.captured import AT, INFERENCE_CONFIG, capture
from tests.provider_answers import provider_answer

MOST_BYTES = 2e6  # of a review as HTML, for 1,000 replicas
# In times of the first poll, which may take 0.5 s for 1,000 replicas.
BUDGETS = {
    "changes_between, every replica restarted with another document": 1.0,
    f"fix plan of {POOLS} pools": 1.5,
    "review_report and to_html": 2.0,
    "review_report and to_html, with the review before": 3.0,
    "freeze: content_of and packed": 2.0,
    "open: read_snapshot": 4.0,
    f"all rules, and a baseline for each of {POOLS} pools": 1.0,
    "first poll, when they answer through the provider": 2.0,
}


def main() -> int:
    """Print the table; return 1 if a budget is exceeded."""
    answers = captured()
    polled = [snapshot(number, answers) for number in range(FEW)]
    through_provider = _provided(answers)
    gc.collect()
    gc.freeze()
    base = first_poll(polled)
    fleet, after = fleet_of(polled), fleet_of([snapshot(number, answers, turn=1) for number in range(FEW)])
    content = content_of(fleet)
    agreed = replace(fleet, policy=replace(fleet.policy, baselines=_baselines(fleet)))
    costs = (
        best(lambda: changes_between(fleet, after)),
        best(lambda: plan_of(fleet)),
        best(lambda: to_html(review_report(fleet))),
        best(lambda: to_html(review_report(after, before=fleet))),
        best(lambda: packed(content_of(fleet))),
        best(lambda: read_snapshot(content)),
        best(lambda: inspected(agreed, AT)),
        first_poll(through_provider),
    )
    rows = [Row(name, cost / base, BUDGETS[name]) for name, cost in zip(BUDGETS, costs, strict=True)]
    size = len(to_html(review_report(fleet)).encode())
    rows.append(Row("bytes of the review as HTML, MB", size / 1e6, MOST_BYTES / 1e6))
    print(f"{FEW:,} replicas in {DOCUMENTS} documents; their first poll takes {base:.3f} s of the processor\n")
    return print_table(rows, "relative to the first poll")


def _baselines(fleet: Fleet) -> tuple[Baseline, ...]:
    """Return a baseline for each pool: the settings of its largest cohort."""
    return tuple(
        Baseline(pool.name, pool.name, {path: setting.value for path, setting in fleet.documents[key].settings.items()})
        for pool in fleet.pools
        if (key := pool.majority_document)
    )


def _provided(answers: Mapping[str, bytes]) -> list[Snapshot]:
    """Return snapshots of the same replicas with the provider."""
    canonical.forget_unused()
    canonical.forget_unused()
    answer = provider_answer(capture("llama"))
    return [snapshot(number, {**answers, INFERENCE_CONFIG: _body(answer, number)}) for number in range(FEW)]


def _body(answer: dict[str, Any], number: int) -> bytes:
    """Return the provider's answer of one replica, consistent with its /server_info."""
    answer["fleet"]["settings"]["model_config.seed"] = number % DOCUMENTS
    most = 128 + number % (DOCUMENTS // POOLS)
    answer["scheduler"]["max_num_seqs"] = answer["fleet"]["settings"]["scheduler_config.max_num_seqs"] = most
    answer["parallelism"]["data_parallel_master_port"] = 20_000 + number
    answer["fleet"]["settings"]["parallel_config.data_parallel_master_port"] = 20_000 + number
    answer["fleet"]["settings"]["instance_id"] = f"17723{number:014}"
    return json.dumps(answer).encode()


if __name__ == "__main__":
    sys.exit(main())
