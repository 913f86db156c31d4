"""Rules on capacity and performance: CP-01 to CP-12."""

from dashboard.rules.capacity.cp_01_kv_cache_capacity import kv_cache_capacity_differs
from dashboard.rules.capacity.cp_02_memory_settings import memory_settings_differ
from dashboard.rules.capacity.cp_03_batch_limits import batch_limits_differ
from dashboard.rules.capacity.cp_04_scheduling import scheduling_differs
from dashboard.rules.capacity.cp_05_compilation import compilation_differs
from dashboard.rules.capacity.cp_06_parallelism import parallelism_differs
from dashboard.rules.capacity.cp_07_devices import devices_differ
from dashboard.rules.capacity.cp_08_speculative_decoding import speculative_decoding_differs
from dashboard.rules.capacity.cp_10_offloaded_weights import weight_offloading_differs
from dashboard.rules.capacity.cp_11_cache_management import cache_management_differs
from dashboard.rules.capacity.cp_12_stranded_memory import kv_cache_memory_stranded
from dashboard.rules.registry import Rule

CAPACITY: tuple[Rule, ...] = (
    kv_cache_capacity_differs,
    memory_settings_differ,
    batch_limits_differ,
    scheduling_differs,
    compilation_differs,
    parallelism_differs,
    devices_differ,
    speculative_decoding_differs,
    weight_offloading_differs,
    cache_management_differs,
    kv_cache_memory_stranded,
)
