"""Write the templates of the simulated fleet from the captures: `python tests/demo/make_templates.py`.

The captures are of servers on CPU; the values of a server on GPU are listed here. A value that differs per replica
is a slot: `<<name>>` inside a string, `"<<=name>>"` for a value that is not a string.
"""

import json
import re
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[1] / "captures"
TEMPLATES = Path(__file__).parents[2] / "dashboard" / "demo" / "templates"
VERSIONS = ("0.12.0", "0.20.2", "0.32.0")

# Values of a server on GPU, by path, if the version has the path.
ON_GPU: dict[str, Any] = {
    "vllm_config.model_config.enforce_eager": False,
    "vllm_config.model_config.skip_tokenizer_init": False,
    "vllm_config.cache_config.block_size": 16,
    "vllm_config.cache_config.effective_attention_block_size": 16,
    "vllm_config.cache_config.prefix_caching_hash_algo": "sha256",
    "vllm_config.cache_config.kv_cache_memory_bytes": None,
    "vllm_config.cache_config.cpu_kvcache_space_bytes": None,
    "vllm_config.parallel_config.disable_custom_all_reduce": False,
    "vllm_config.parallel_config.worker_cls": "vllm.v1.worker.gpu_worker.Worker",
    "vllm_config.scheduler_config.async_scheduling": True,
    "vllm_config.scheduler_config.max_num_seqs": 256,
    "vllm_config.device_config.device": "cuda",
    "vllm_config.load_config.load_format": "auto",
    "vllm_config.kernel_config.ir_op_priority.rms_norm": ["vllm_c", "native"],
    "vllm_config.kernel_config.ir_op_priority.fused_add_rms_norm": ["vllm_c", "native"],
    "vllm_config.compilation_config.mode": 3,
    "vllm_config.compilation_config.custom_ops": ["none"],
    "vllm_config.compilation_config.splitting_ops": ["vllm::unified_attention", "vllm::unified_mla_attention"],
    "vllm_config.compilation_config.cudagraph_mode": 1,
    "vllm_config.compilation_config.cudagraph_num_of_warmups": 1,
    "vllm_config.compilation_config.compilation_time": 41.7,
    "vllm_config.optimization_level": 2,
    "vllm_env.VLLM_CPU_KVCACHE_SPACE": 0,
    "system_env.is_cuda_available": "True",
    "system_env.cuda_compiled_version": "13.0",
    "system_env.nvidia_driver_version": "580.95.05",
    "system_env.vllm_build_flags": "CUDA Archs: 8.9 9.0 10.0; ROCm: Disabled; XPU: Disabled",
}
SLOTS: dict[str, str] = {
    "vllm_config.cache_config.num_gpu_blocks": "<<=num_gpu_blocks>>",
    "vllm_config.cache_config.kv_cache_size_tokens": "<<=kv_cache_size_tokens>>",
    "vllm_config.cache_config.kv_cache_max_concurrency": "<<=kv_cache_max_concurrency>>",
    "vllm_config.parallel_config.data_parallel_rank": "<<=dp_rank>>",
    "vllm_config.parallel_config.data_parallel_rank_local": "<<=dp_rank>>",
    "vllm_config.parallel_config.data_parallel_index": "<<=dp_rank>>",
    "vllm_config.parallel_config.master_port": "<<=master_port>>",
    "vllm_config.parallel_config._coord_store_port": "<<=coord_store_port>>",
    "vllm_config.compilation_config.local_cache_dir": "/home/vllm/.cache/vllm/torch_compile_cache/<<cache_key>>",
    "vllm_config.instance_id": "<<instance_id>>",
    "vllm_env.VLLM_DP_RANK": "<<=dp_rank>>",
    "vllm_env.VLLM_DP_RANK_LOCAL": "<<=dp_rank>>",
    "vllm_env.VLLM_HOST_IP": "<<host_ip>>",
    "vllm_env.VLLM_NIXL_SIDE_CHANNEL_HOST": "<<host_ip>>",
    "vllm_env.VLLM_NIXL_SIDE_CHANNEL_PORT": "<<=side_channel_port>>",
    "vllm_env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": "<<shm_buffer_name>>",
}
NOT_HERE = ("vllm_env.VLLM_PLUGINS",)

# Histograms of requests whose sum and count grow; their buckets but the last stay at 0.
COUNTED = (
    "(?:request_prompt_tokens|request_generation_tokens|time_to_first_token_seconds|request_prefill_time_seconds"
    "|request_prefill_kv_computed_tokens)"
)
# The line of a metric without its value, and the slot of the value.
COUNTERS = {
    r"process_start_time_seconds": "started_at",
    r"process_cpu_seconds_total": "cpu_seconds",
    r"vllm:num_requests_running{[^}]*}": "running",
    r"vllm:num_requests_waiting{[^}]*}": "waiting",
    r'vllm:num_requests_waiting_by_reason{[^}]*reason="capacity"[^}]*}': "waiting",
    r"vllm:kv_cache_usage_perc{[^}]*}": "kv_usage",
    r"vllm:prefix_cache_queries_total{[^}]*}": "queries",
    r"vllm:prefix_cache_hits_total{[^}]*}": "hits",
    r"vllm:external_prefix_cache_queries_total{[^}]*}": "external_queries",
    r"vllm:external_prefix_cache_hits_total{[^}]*}": "external_hits",
    r"vllm:num_preemptions_total{[^}]*}": "preemptions",
    r"vllm:(?:prompt_tokens_total|request_prompt_tokens_sum){[^}]*}": "prompt_tokens",
    r'vllm:prompt_tokens_by_source_total{[^}]*source="local_compute"[^}]*}': "computed_tokens",
    r'vllm:prompt_tokens_by_source_total{[^}]*source="local_cache_hit"[^}]*}': "hits",
    r'vllm:prompt_tokens_by_source_total{[^}]*source="external_kv_transfer"[^}]*}': "external_hits",
    r"vllm:prompt_tokens_cached_total{[^}]*}": "cached_tokens",
    r'vllm:prompt_tokens_cached_by_source_total{[^}]*source="device"[^}]*}': "hits",
    r'vllm:prompt_tokens_cached_by_source_total{[^}]*source="host"[^}]*}': "host_tokens",
    r'vllm:prompt_tokens_cached_by_source_total{[^}]*source="p2p"[^}]*}': "p2p_tokens",
    r"vllm:(?:generation_tokens_total|request_generation_tokens_sum){[^}]*}": "generation_tokens",
    r'vllm:request_success_total{[^}]*finished_reason="stop"[^}]*}': "requests",
    r"vllm:time_to_first_token_seconds_sum{[^}]*}": "first_token_seconds",
    r"vllm:request_prefill_time_seconds_sum{[^}]*}": "prefill_seconds",
    r"vllm:request_prefill_kv_computed_tokens_sum{[^}]*}": "computed_tokens",
    rf"vllm:{COUNTED}_count{{[^}}]*}}": "requests",
    rf'vllm:{COUNTED}_bucket{{[^}}]*le="\+Inf"[^}}]*}}': "requests",
    r"[a-z_:]+_created(?:{[^}]*})?": "created",
}


def server_info(version: str) -> str:
    """Return the template of `/server_info`."""
    document = json.loads((CAPTURES / version / "llama" / "server_info.json").read_text())
    for path, value in (ON_GPU | SLOTS).items():
        _set(document, path.split("."), value)
    for path in NOT_HERE:
        section, name = path.split(".")
        document.get(section, {}).pop(name, None)
    return json.dumps(document, indent=1) + "\n"


def metrics(version: str) -> str:
    """Return the template of `/metrics`; the labels of `vllm:cache_config_info` are one slot."""
    page = (CAPTURES / version / "llama" / "metrics.txt").read_text()
    page = page.replace('engine="0"', 'engine="<<dp_rank>>"').replace('model_name="./llama"', 'model_name="<<model>>"')
    for line, slot in COUNTERS.items():
        page = re.sub(rf"^({line}) \S+$", rf"\1 <<{slot}>>", page, flags=re.MULTILINE)
    return re.sub(r"^vllm:cache_config_info{.*}", "vllm:cache_config_info{<<cache_config>>}", page, flags=re.MULTILINE)


def _set(document: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        document = document.get(name) or {}
    if path[-1] in document:
        document[path[-1]] = value


def main() -> None:
    """Write all templates."""
    for version in VERSIONS:
        folder = TEMPLATES / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server_info.json").write_text(server_info(version))
        (folder / "metrics.txt").write_text(metrics(version))


if __name__ == "__main__":
    main()
