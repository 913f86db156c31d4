"""A LoRA adapter for the tiny llama, all zeros, written as PEFT does."""

import json
from pathlib import Path

RANK = 8
HIDDEN, QUERY = 64, 128  # hidden_size, and num_attention_heads x head_dim (tests/models/llama/config.json)
MODULE = "base_model.model.model.layers.0.self_attn.q_proj"
CONFIG = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": RANK,
    "target_modules": ["q_proj"],
    "bias": "none",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "llama",
}


def write_adapter(folder: Path) -> Path:
    """Write adapter_config.json and adapter_model.safetensors (its length, a header as JSON, the numbers)."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
    shapes = {f"{MODULE}.lora_A.weight": (RANK, HIDDEN), f"{MODULE}.lora_B.weight": (QUERY, RANK)}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))
    return folder
