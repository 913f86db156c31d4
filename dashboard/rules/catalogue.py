"""All rules: the rows of simple_rules.yaml and the functions of these modules, in the order of their ids."""

from dashboard.rules import baseline
from dashboard.rules.behaviour import development_mode, prompts, requests, weights
from dashboard.rules.capacity import graphs, kv_cache
from dashboard.rules.disaggregation import handshake, roles, transfer
from dashboard.rules.findings import FAMILIES
from dashboard.rules.identity import coverage, engines
from dashboard.rules.registry import Rule
from dashboard.rules.routing import blocks, events, hash_root, hashes, prefix_caching
from dashboard.rules.simple import simple_rules
from dashboard.rules.stores import mooncake, sharing

# Raise it with every changed verdict (tests/rules/rule_set.txt). Reports and snapshots print it.
RULE_SET = 7
MODULES = (
    *(blocks, events, hash_root, hashes, prefix_caching),
    *(handshake, roles, transfer),
    *(mooncake, sharing),
    *(development_mode, prompts, requests, weights),
    *(graphs, kv_cache),
    *(coverage, engines),
    baseline,
)


_CODED = (each for module in MODULES for each in vars(module).values() if isinstance(each, Rule))
_PREFIXES = tuple(FAMILIES)
ALL_RULES = tuple(sorted([*simple_rules(), *_CODED], key=lambda rule: (_PREFIXES.index(rule.id[:2]), rule.id)))
BY_ID = {rule.id: rule for rule in ALL_RULES}
