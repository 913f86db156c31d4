"""Rules on routing and the identity of blocks: RT-01 to RT-18."""

from dashboard.rules.registry import Rule
from dashboard.rules.routing.rt_01_block_size import block_size_differs
from dashboard.rules.routing.rt_02_router_block_size import block_size_not_the_routers
from dashboard.rules.routing.rt_03_match_unit import match_unit_differs
from dashboard.rules.routing.rt_04_context_parallel import context_parallel_size_differs
from dashboard.rules.routing.rt_05_hash_algorithm import hash_algorithm_differs
from dashboard.rules.routing.rt_06_hash_root import hash_root_differs
from dashboard.rules.routing.rt_07_event_hashes import event_hash_form_differs
from dashboard.rules.routing.rt_08_event_format import event_format_differs
from dashboard.rules.routing.rt_09_event_publishing import events_not_published
from dashboard.rules.routing.rt_10_event_topic import event_topic_differs
from dashboard.rules.routing.rt_11_event_endpoint import event_endpoint_differs
from dashboard.rules.routing.rt_12_event_queue import event_queue_differs
from dashboard.rules.routing.rt_13_prefix_caching import prefix_caching_off
from dashboard.rules.routing.rt_14_tokenizer import tokenizer_differs
from dashboard.rules.routing.rt_15_multimodal import media_handling_differs
from dashboard.rules.routing.rt_16_offloaded_cache import offloaded_cache_not_counted
from dashboard.rules.routing.rt_17_reusable_prefix import reusable_prefix_too_long
from dashboard.rules.routing.rt_18_lookahead import hash_lookahead_differs

ROUTING: tuple[Rule, ...] = (
    block_size_differs,
    block_size_not_the_routers,
    match_unit_differs,
    context_parallel_size_differs,
    hash_algorithm_differs,
    hash_root_differs,
    event_hash_form_differs,
    event_format_differs,
    events_not_published,
    event_topic_differs,
    event_endpoint_differs,
    event_queue_differs,
    prefix_caching_off,
    tokenizer_differs,
    media_handling_differs,
    offloaded_cache_not_counted,
    reusable_prefix_too_long,
    hash_lookahead_differs,
)
