"""Rules on stores of KV cache that replicas share: SH-01 to SH-05."""

from dashboard.rules.registry import Rule
from dashboard.rules.stores.sh_01_namespace import store_namespace_differs
from dashboard.rules.stores.sh_02_offloading import offloading_differs
from dashboard.rules.stores.sh_03_mooncake import mooncake_keys_collide
from dashboard.rules.stores.sh_04_lmcache import lmcache_settings_differ
from dashboard.rules.stores.sh_05_adapter_paths import adapter_paths_differ

STORES: tuple[Rule, ...] = (
    store_namespace_differs,
    offloading_differs,
    mooncake_keys_collide,
    lmcache_settings_differ,
    adapter_paths_differ,
)
