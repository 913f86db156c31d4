"""All rules, each named once, in the order of their ids."""

from dashboard.rules.baseline import BASELINE
from dashboard.rules.behaviour import BEHAVIOUR
from dashboard.rules.capacity import CAPACITY
from dashboard.rules.disaggregation import DISAGGREGATION
from dashboard.rules.identity import IDENTITY
from dashboard.rules.registry import Rule
from dashboard.rules.routing import ROUTING
from dashboard.rules.stores import STORES

# Raise it with every changed verdict (tests/rules/rule_set.txt). Reports and snapshots print it.
RULE_SET = 7

ALL_RULES: tuple[Rule, ...] = (*ROUTING, *DISAGGREGATION, *STORES, *BEHAVIOUR, *CAPACITY, *IDENTITY, *BASELINE)
BY_ID = {rule.id: rule for rule in ALL_RULES}
