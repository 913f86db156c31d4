"""CP-05 and CP-13: CUDA graphs and their sizes (vllm/config/vllm.py, _set_cudagraph_sizes); short draft models."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from dashboard.compare.equality import NOT_SET
from dashboard.fleet import Setting, SettingValue, State
from dashboard.fleet.pieces import value
from dashboard.rules.connector_options import native
from dashboard.rules.differences import pool_differences
from dashboard.rules.findings import Draft, Remedy
from dashboard.rules.registry import rule
from dashboard.rules.routing.blocks import is_size
from dashboard.rules.sentences import setting_piece, write
from dashboard.rules.subject import YES, PoolSubject

EAGER = "model_config.enforce_eager"
GRAPH_MODE = "compilation_config.cudagraph_mode"
COMPILED = ("compilation_config.mode", "optimization_level", "performance_mode")
SIZES = "compilation_config.cudagraph_capture_sizes"
LARGEST = "compilation_config.max_cudagraph_capture_size"
SEQS, TOKENS = "scheduler_config.max_num_seqs", "scheduler_config.max_num_batched_tokens"
SPECULATED = "speculative_config.num_speculative_tokens"
NO_GRAPHS = (SettingValue("[]", State.REPORTED), SettingValue("0", State.REPORTED), NOT_SET)
PASTE_LENGTH = 100  # characters; a list of fifty sizes is not worth pasting
# vllm/config/compilation.py, CUDAGraphMode: a configuration reports numbers, a command line accepts names.
MODES = {
    "0": '"NONE"',
    "1": '"PIECEWISE"',
    "2": '"FULL"',
    "[2,0]": '"FULL_DECODE_ONLY"',
    "[2,1]": '"FULL_AND_PIECEWISE"',
}
CEILINGS = (512, 1024)  # of derived sizes; the larger one on the newest GPUs
STEP, LARGER_STEP, LARGER_FROM = 8, 16, 256  # batches between two graphs
MIN_SHARE = 0.5  # some options remove sizes, such as those that tensor parallel ranks cannot share evenly
DRAFT_LENGTH = "speculative_config.draft_model_config.max_model_len"
LENGTH = "model_config.max_model_len"
EXTEND_DRAFT = Remedy(
    "Extend the draft model's context like the model's (`--speculative-config`), or use a draft model with the model's "
    "length. Restart these replicas."
)


@rule("CP-05", needs=(EAGER, GRAPH_MODE, *COMPILED, LARGEST, SIZES))
def compilation_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool are compiled differently, or one of them runs in eager mode.

    A replica in eager mode has no CUDA graphs: its other options are not compared. Sizes of CUDA graphs that vLLM
    derived from batch limits are not compared either (CP-03), nor the largest size where no replica can have more
    requests.
    """
    yield from pool_differences(pool, [EAGER])
    compiled = pool.without(pool.values(EAGER).get(YES, ()))
    yield from pool_differences(compiled, COMPILED)
    yield from pool_differences(
        compiled, [GRAPH_MODE], lambda mode, _: mode._replace(value=MODES.get(mode.value.replace(" ", ""), mode.value))
    )
    without_graphs = (compiled.values(path).get(each, ()) for path in (SIZES, LARGEST) for each in NO_GRAPHS)
    yield from _size_differences(compiled.without({replica for ids in without_graphs for replica in ids}))


def _size_differences(pool: PoolSubject) -> Iterator[Draft]:
    """Yield different largest sizes; where these are equal, different lists of sizes."""
    # With speculation a request is a batch of several tokens.
    unit = "tokens" if any(each.state is State.REPORTED for each in pool.values(SPECULATED)) else "requests"
    ends = list(pool_differences(pool, [LARGEST]))

    def is_harmless(settings: Mapping[str, Setting]) -> bool:
        graphs = _graphs(settings)
        return graphs is not None and bool(
            graphs.are_derived or (ends and graphs.largest >= graphs.seqs * graphs.per_request)
        )

    harmless = {replica for replica, is_so in pool.of_documents(is_harmless).items() if is_so}
    for draft in ends or pool_differences(pool, [SIZES]):
        if harmless.issuperset(replica for each in draft.evidence for replica in each.replicas):
            continue
        snippets = tuple(each for each in draft.remedy.snippets if len(each.text) <= PASTE_LENGTH)
        effect = _above_largest(draft, unit) if ends else " Batches in between are padded to the next size."
        yield replace(draft, text=write(draft.text, effect), remedy=draft.remedy._replace(snippets=snippets))


def _above_largest(draft: Draft, unit: str) -> str:
    """Return which batches have no CUDA graph; empty where a size is no number."""
    sizes = [size for each in draft.evidence if type(size := json.loads(each.value)) is int]
    return f" Batches above {min(sizes):,} {unit} run without CUDA graphs there." if sizes else ""


class _Graphs(NamedTuple):
    """CUDA graphs and batch limits of a document. Sizes are in tokens, as vLLM counts batches."""

    largest: int
    number: int | None  # of sizes
    seqs: int  # requests
    tokens: int  # in a batch
    per_request: int  # tokens of one decoding request: one, and the speculated ones

    @property
    def are_derived(self) -> bool:
        """Return whether the sizes are those that vLLM derives. Older versions do not count speculated tokens."""
        each = {1, self.per_request}
        limits = {min(self.seqs * number * 2, ceiling, self.tokens) for number in each for ceiling in CEILINGS}
        return any(self._fit(limit) for limit in limits)

    def _fit(self, limit: int) -> bool:
        """Return whether sizes end where vLLM's own do for this limit, and are about as many."""
        step = max(STEP if limit < LARGER_FROM else LARGER_STEP, self.per_request)
        own = min(limit, LARGER_FROM) // STEP + max(limit - LARGER_FROM, 0) // LARGER_STEP
        is_full = self.number is None or self.number >= own * MIN_SHARE
        return limit - step < self.largest <= limit and is_full


def are_derived_sizes(settings: Mapping[str, Setting]) -> bool:
    """Return whether a document's sizes are those that vLLM derives from its batch limits."""
    graphs = _graphs(settings)
    return graphs is not None and graphs.are_derived


def _graphs(settings: Mapping[str, Setting]) -> _Graphs | None:
    """Read a document; None without CUDA graphs, or where one of the numbers is not reported."""
    sizes, largest = native(settings, SIZES), native(settings, LARGEST)
    if isinstance(sizes, list) and sizes and all(type(size) is int for size in sizes):
        largest = max(sizes)
    seqs, tokens, speculated = (native(settings, path) for path in (SEQS, TOKENS, SPECULATED))
    if any(type(number) is not int for number in (largest, seqs, tokens)):
        return None
    per_request = 1 + speculated if type(speculated) is int and speculated > 0 else 1
    return _Graphs(largest, len(sizes) if isinstance(sizes, list) else None, seqs, tokens, per_request)


@rule("CP-13", needs=(DRAFT_LENGTH,), least=1)
def draft_model_is_shorter(pool: PoolSubject) -> Iterator[Draft]:
    """Draft models have a shorter context than their model."""
    pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
    drafts, models = pool.identity(DRAFT_LENGTH), pool.identity(LENGTH)
    for member in pool.members:
        draft, model = drafts.get(member.id), models.get(member.id)
        if is_size(draft) and is_size(model) and draft < model:
            pairs[draft, model].append(member.id)
    for (draft, model), replicas in pairs.items() if not pool.is_ignored(DRAFT_LENGTH) else ():
        lengths = (value(json.dumps(draft)), "; ", setting_piece(LENGTH), " is ", value(json.dumps(model)), ".")
        yield Draft(
            tuple(replicas),
            write(setting_piece(DRAFT_LENGTH), " is ", *lengths),
            pool.evidence((DRAFT_LENGTH, LENGTH), replicas),
            EXTEND_DRAFT,
        )
