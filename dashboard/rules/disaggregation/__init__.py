"""Rules on prefill/decode disaggregation: PD-01 to PD-20."""

from dashboard.rules.disaggregation.pd_01_version import version_differs
from dashboard.rules.disaggregation.pd_02_model_path import model_path_differs
from dashboard.rules.disaggregation.pd_03_weights import weights_differ
from dashboard.rules.disaggregation.pd_04_dtype import dtype_differs
from dashboard.rules.disaggregation.pd_05_kv_cache_dtype import kv_cache_dtype_differs
from dashboard.rules.disaggregation.pd_06_attention_backend import attention_backend_differs
from dashboard.rules.disaggregation.pd_07_hybrid_manager import hybrid_manager_differs
from dashboard.rules.disaggregation.pd_08_speculation import speculation_differs
from dashboard.rules.disaggregation.pd_09_connector import connector_differs
from dashboard.rules.disaggregation.pd_10_roles import roles_do_not_fit
from dashboard.rules.disaggregation.pd_11_parallel_sizes import parallel_sizes_clash
from dashboard.rules.disaggregation.pd_12_block_size import block_size_differs
from dashboard.rules.disaggregation.pd_13_layout import layout_differs
from dashboard.rules.disaggregation.pd_14_kv_groups import kv_cache_groups_differ
from dashboard.rules.disaggregation.pd_15_enforced_check import handshake_check_is_off
from dashboard.rules.disaggregation.pd_16_load_failure import load_failure_policy_differs
from dashboard.rules.disaggregation.pd_17_side_channel import side_channel_on_loopback
from dashboard.rules.disaggregation.pd_18_context_length import prefill_accepts_longer_requests
from dashboard.rules.disaggregation.pd_19_encoder import encoder_settings_differ
from dashboard.rules.disaggregation.pd_20_rank_blocks import rank_blocks_differ
from dashboard.rules.registry import Rule

DISAGGREGATION: tuple[Rule, ...] = (
    version_differs,
    model_path_differs,
    weights_differ,
    dtype_differs,
    kv_cache_dtype_differs,
    attention_backend_differs,
    hybrid_manager_differs,
    speculation_differs,
    connector_differs,
    roles_do_not_fit,
    parallel_sizes_clash,
    block_size_differs,
    layout_differs,
    kv_cache_groups_differ,
    handshake_check_is_off,
    load_failure_policy_differs,
    side_channel_on_loopback,
    prefill_accepts_longer_requests,
    encoder_settings_differ,
    rank_blocks_differ,
)
