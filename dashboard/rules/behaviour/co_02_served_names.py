"""CO-02: replicas of one pool answer to different model names."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dashboard.fleet import Setting, SettingValue, State
from dashboard.fleet.formatting import count, joined, middle_cut, one_line
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.canonical import canonical_text

NAMES = "served_model_names"
MOST_NAMES = 3  # that a sentence names before it counts the rest
LONGEST_NAME = 60  # characters


@rule(
    id="CO-02",
    name="served-names-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.CRITICAL},
    needs=(NAMES,),
)
def served_names_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool answer to different model names.

    The first name counts apart: it stands in answers and labels all metrics. The order of the others means nothing.

    Why it matters:
        - any pool: A request is refused with 404 by each replica that does not know the name in it; where the first
          name differs, metrics carry another label, and dashboards and autoscalers that ask by name see a part of the
          pool only.

    How to fix:
        Give every replica the same list with `--served-model-name`, in the same order, the name for metrics first.

    Exceptions:
        While clients move to a new name, serve the old one beside it on every replica, and suppress the finding until
        that is done.

    Evidence:
        - vllm/entrypoints/openai/models/serving.py (404 for a name that is not served)
        - vllm/v1/metrics/loggers.py (the first name is the label `model_name`)
        - llm-d/llm-d#2310

    Example:
        Four replicas serve `chat` and `chat-v2`, one was started before `chat-v2` was added. Every fifth request for
        `chat-v2` gets a 404.
    """
    for draft in drift(pool, {NAMES: "list of served model names"}, _first_then_sorted):
        here, *others = [_names(json.loads(each.value)) for each in draft.evidence]
        is_deviation = any(each.is_reference for each in draft.evidence)
        effect = _of_deviation(here, others[0]) if is_deviation else _of_tie([here, *others])
        severity = None if effect else Severity.WARNING
        effect = effect or "; the first name labels all metrics, so queries by name miss a part of the pool."
        yield replace(draft, sentence=draft.sentence.removesuffix(".") + effect, severity=severity)


def _first_then_sorted(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Put the names after the first in one order."""
    names = json.loads(told.value)
    if not isinstance(names, list):
        return told
    return SettingValue(canonical_text([*names[:1], *sorted(names[1:], key=canonical_text)]), State.REPORTED)


def _names(told: object) -> set[str]:
    return {name for name in told if isinstance(name, str)} if isinstance(told, list) else set()


def _of_deviation(here: set[str], others: set[str]) -> str:
    """Say which names get a 404 where; nothing where both serve the same."""
    effects = [f"requests for {_listed(missing)} get a 404 here" for missing in [others - here] if missing]
    effects += [f"requests for {_listed(extra)} get a 404 from the others" for extra in [here - others] if extra]
    return f"; {joined(effects)}." if effects else ""


def _of_tie(sides: list[set[str]]) -> str:
    """Say which names not all replicas serve; nothing where all serve the same."""
    disputed = set().union(*sides) - sides[0].intersection(*sides[1:])
    return f"; requests for {_listed(disputed)} get a 404 from some replicas." if disputed else ""


def _listed(names: set[str]) -> str:
    shown = [f'"{middle_cut(one_line(name), LONGEST_NAME)}"' for name in sorted(names)[:MOST_NAMES]]
    return joined(shown + ([count(len(names) - MOST_NAMES, "other name")] if len(names) > MOST_NAMES else []))
