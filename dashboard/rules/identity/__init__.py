"""Rules on data-parallel groups, identity and coverage: ID-01 to ID-08, without ID-04, which no replica tells."""

from dashboard.rules.identity.id_01_ranks_of_one_engine import ranks_of_one_engine_differ
from dashboard.rules.identity.id_02_engine_id import engine_id_shared
from dashboard.rules.identity.id_03_addresses import address_shared
from dashboard.rules.identity.id_05_unread import replicas_not_read
from dashboard.rules.identity.id_06_sources_contradict import sources_contradict
from dashboard.rules.identity.id_07_same_process import process_listed_twice
from dashboard.rules.identity.id_08_version import vllm_version_differs
from dashboard.rules.registry import Rule

IDENTITY: tuple[Rule, ...] = (
    ranks_of_one_engine_differ,
    engine_id_shared,
    address_shared,
    replicas_not_read,
    sources_contradict,
    process_listed_twice,
    vllm_version_differs,
)
