"""Options become the policy by which a fleet is judged."""

from dashboard.config.model import Options
from dashboard.config.rules import PoolOptions, RuleOptions, SuppressOptions
from dashboard.rules.domain import Declared, Expectations
from dashboard.rules.findings import Suppression
from dashboard.rules.policy import Policy, RuleChange


def policy_of(options: Options) -> Policy:
    """Return what the operator decides about rules and pools. Suppressions are numbered as they are written, from 1."""
    return Policy(
        pools={name: _declared(pool) for name, pool in options.pools.items()},
        rules={rule: _change(change) for rule, change in options.rules.items()},
        suppressions=tuple(_suppression(each, number) for number, each in enumerate(options.suppress, start=1)),
        baselines=options.agreed,
        file=options.file,
    )


def _declared(pool: PoolOptions) -> Declared:
    expects = Expectations(
        block_size=pool.expects.block_size,
        hash_algorithm=pool.expects.hash_algorithm,
        seed_policy=pool.expects.seed_policy,
        event_topic=pool.expects.event_topic,
    )
    return Declared(pool.router, pool.kv_store, pool.disaggregated, expects)


def _change(change: RuleOptions) -> RuleChange:
    """Keep only the parameters that are written: the rule knows its own defaults."""
    return RuleChange(change.enabled, change.severity, change.parameters.model_dump(exclude_unset=True))


def _suppression(written: SuppressOptions, number: int) -> Suppression:
    return Suppression(
        rule=written.rule,
        owner=written.owner,
        reason=written.reason,
        until=written.until,
        pool=written.pool,
        replicas=written.replicas,
        labels=written.labels,
        number=number,
    )
