"""CO-05: replicas of one pool sample with other defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.rules.domain import Facet
from dashboard.rules.drift import drift
from dashboard.rules.findings import Family, Severity
from dashboard.rules.meanings import without_empty
from dashboard.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboard.rules.findings import Draft
    from dashboard.rules.subject import PoolSubject

GENERATION_CONFIG = "model_config.generation_config"
OVERRIDE = "model_config.override_generation_config"


@rule(
    id="CO-05",
    name="sampling-defaults-differ",
    family=Family.BEHAVIOUR,
    severity={Facet.MODEL: Severity.WARNING},
    needs=(GENERATION_CONFIG, OVERRIDE),
)
def sampling_defaults_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool sample with other defaults.

    An empty override and none are the same.

    Why it matters:
        - any pool: A request that sends no temperature, top_p, penalties or token limit of its own is answered with
          those of the replica that it reaches, so the same prompt gives answers of another kind or length.

    How to fix:
        Give every replica of the pool the same `--generation-config` and `--override-generation-config`.

    Exceptions:
        Where every client sends all sampling parameters the defaults are never used: disable the rule.

    Evidence:
        - vllm/config/model.py (`auto` reads the model's own file, `vllm` reads none, overrides come on top)

    Example:
        Four replicas take the model's own defaults, with temperature 0.6; one runs with `--generation-config vllm`,
        where the temperature is 1.0.
    """
    nouns = {GENERATION_CONFIG: "source of the sampling defaults", OVERRIDE: "override of the sampling defaults"}
    return drift(pool, nouns, without_empty)
