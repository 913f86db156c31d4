"""CO-05: replicas of one pool sample with other defaults."""

import json
from collections.abc import Iterator

from dashboard.rules.connectors import value
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import apart, drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.holders import held
from dashboard.rules.meanings import AUTO, without_empty
from dashboard.rules.registry import rule
from dashboard.rules.subject import Holders, PoolSubject
from dashboard.vllm.identity import is_folder

MODEL = "model_config.model"
GENERATION_CONFIG = "model_config.generation_config"
OVERRIDE = "model_config.override_generation_config"


@rule(
    id="CO-05",
    name="sampling-defaults-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(GENERATION_CONFIG, OVERRIDE),
)
def sampling_defaults_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool sample with other defaults.

    An empty override and none are the same, and so are `auto` and the model's own folder or id.

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
    told = {GENERATION_CONFIG: ("source of the sampling defaults", _sources(pool))}
    yield from apart({} if pool.is_ignored(GENERATION_CONFIG) else told)
    yield from drift(pool, {OVERRIDE: "override of the sampling defaults"}, without_empty)


def _sources(pool: PoolSubject) -> Holders:
    """Return who takes the defaults from where; the model's own folder or id counts as `auto`."""
    whole, part = pool.identity(MODEL), pool.of_documents(lambda settings: value(settings, MODEL))
    told = {replica: told for told, ids in pool.values(GENERATION_CONFIG).items() for replica in ids}

    def is_own(replica: str, source: object) -> bool:
        names = (whole.get(replica), None if is_folder(whole.get(replica)) else part[replica])
        return isinstance(source, str) and source.rstrip("/") in [str(name).rstrip("/") for name in names if name]

    return held({replica: AUTO if is_own(replica, json.loads(each.value)) else each for replica, each in told.items()})
