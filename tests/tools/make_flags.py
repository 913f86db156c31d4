"""Write dashboard/rules/flags.json: the command-line flag of each setting, read in vLLM's own source.

usage: make_flags.py FOLDER, where FOLDER holds the `vllm` package. vLLM declares a flag as
`group.add_argument("--block-size", **cache_kwargs["block_size"])`, with `cache_kwargs = get_kwargs(CacheConfig)`
(vllm/engine/arg_utils.py), and a section as `cache_config: CacheConfig` (vllm/config/vllm.py). Fields of the front end
have no section; their flags are made of their names (vllm/entrypoints/common/cli_args.py, before 0.33 in `launchers`).
"""

import json
import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).parents[2] / "dashboard" / "rules" / "flags.json"
GROUP = re.compile(r"(\w+)_kwargs = get_kwargs\((\w+)\)")
FLAG = re.compile(r'add_argument\(\s*"(--[\w-]+)",(?:(?!add_argument|\*\*\w+\)).)*?(\w+)_kwargs\["(\w+)"\]', re.DOTALL)
FRONT_END = re.compile(r"^class BaseFrontendArgs:$(.*?)^(?:class|def) ", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^    ([a-z]\w*): ", re.MULTILINE)
SECTION = re.compile(r"^    (\w+_config): \"?(\w+Config)", re.MULTILINE)


def main() -> None:
    """Read, and write."""
    package = Path(sys.argv[1]) / "vllm"
    arguments = (package / "engine" / "arg_utils.py").read_text()
    sections = {kind: section for section, kind in SECTION.findall((package / "config" / "vllm.py").read_text())} | {
        "ModelConfig": "model_config",
        "MultiModalConfig": "model_config.multimodal_config",
        "UVAOffloadConfig": "offload_config.uva",
        "PrefetchOffloadConfig": "offload_config.prefetch",
    }
    groups = dict(GROUP.findall(arguments))
    front_ends = [file.read_text() for file in sorted((package / "entrypoints").glob("*/cli_args.py"))]
    front_end = next(found for text in front_ends for found in FRONT_END.findall(text))
    flags = {field: f"--{field.replace('_', '-')}" for field in FIELD.findall(front_end)}
    for flag, group, field in FLAG.findall(arguments):
        kind = groups.get(group, "")
        if kind == "VllmConfig":
            flags[field] = flag
        elif kind in sections:
            flags.setdefault(f"{sections[kind]}.{field}", flag)
    OUTPUT.write_text(json.dumps(dict(sorted(flags.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
