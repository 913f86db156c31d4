"""The configuration API's schema as it was proposed (vllm-project/vllm#38147): names of fields, and their types."""

TEXT, INTEGER, NUMBER, TRUTH, NOTHING = str, int, float, bool, type(None)
# The seed's field names and types; vLLM 0.32.0 has no `max_num_partial_prefills`, a CPU no compute capability.
SEED: dict[str, dict[str, tuple[type, ...]]] = {
    "model": {
        "served_model_names": (list,),
        "dtype": (TEXT,),
        "quantization": (TEXT, NOTHING),
        "max_model_len": (INTEGER,),
        "max_logprobs": (INTEGER,),
    },
    "kv_cache": {
        "num_gpu_blocks": (INTEGER, NOTHING),
        "num_cpu_blocks": (INTEGER, NOTHING),
        "gpu_memory_utilization": (NUMBER,),
        "cache_dtype": (TEXT,),
        "enable_prefix_caching": (TRUTH,),
        "prefix_caching_hash_algo": (TEXT,),
        "kv_offloading_enabled": (TRUTH,),
        "kv_offloading_backend": (TEXT, NOTHING),
        "kv_offloading_size_gib": (NUMBER, NOTHING),
        "groups": (list,),
    },
    "scheduler": {
        "max_num_batched_tokens": (INTEGER,),
        "max_num_seqs": (INTEGER,),
        "max_num_partial_prefills": (NOTHING,),
        "enable_chunked_prefill": (TRUTH,),
        "policy": (TEXT,),
    },
    "parallelism": {
        "tensor_parallel_size": (INTEGER,),
        "pipeline_parallel_size": (INTEGER,),
        "data_parallel_size": (INTEGER,),
        "data_parallel_size_local": (INTEGER,),
        "data_parallel_rank": (INTEGER,),
        "data_parallel_rank_local": (INTEGER, NOTHING),
        "data_parallel_master_ip": (TEXT,),
        "data_parallel_master_port": (INTEGER,),
        "data_parallel_rpc_port": (INTEGER,),
        "expert_parallel_enabled": (TRUTH,),
        "prefill_context_parallel_size": (INTEGER,),
    },
    "speculative_decoding": {
        "enabled": (TRUTH,),
        "method": (TEXT, NOTHING),
        "num_speculative_tokens": (INTEGER, NOTHING),
        "draft_model": (TEXT, NOTHING),
    },
    "lora": {
        "enabled": (TRUTH,),
        "max_lora_rank": (INTEGER, NOTHING),
        "max_loras": (INTEGER, NOTHING),
        "max_cpu_loras": (INTEGER, NOTHING),
        "lora_dtype": (TEXT, NOTHING),
    },
    "hma": {"enabled": (TRUTH,)},
}
DEVICE: dict[str, tuple[type, ...]] = {
    "rank": (INTEGER,),
    "name": (TEXT,),
    "total_memory_bytes": (INTEGER,),
    "compute_capability": (dict, NOTHING),
    "num_compute_units": (INTEGER,),
}
GROUP: dict[str, tuple[type, ...]] = {
    "group_id": (INTEGER,),
    "layer_names": (list,),
    "spec_type": (TEXT,),
    "block_size": (INTEGER,),
    "page_size_bytes": (INTEGER,),
}
