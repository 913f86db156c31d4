"""The hash lookahead, tokens after a block that its hash covers: reported by the provider, else derived from settings.

Since 0.33 vLLM looks ahead under EAGLE, EAGLE3 and MTP (vllm/config/vllm.py, num_hash_lookahead_tokens; not under
dflash and dspark, vllm/config/speculative.py, needs_eagle_block_drop).
"""

import json
from collections.abc import Mapping
from typing import Any

from dashboard.fleet import Setting, Source, State
from dashboard.vllm.versions import reports_change

LOOKAHEAD = "hash_lookahead_tokens"
SINCE = (0, 33, 0)
SPECULATIVE = "speculative_config"
METHODS = frozenset({"eagle", "eagle3", "mtp"})
DISABLE = ("disable_lookahead_block_hashes", "disable_eagle_block_drop")
_UNKNOWN = object()


def lookahead_setting(settings: Mapping[str, Setting]) -> Setting | None:
    """Return the number as a setting; None where a setting that it depends on is not reported."""
    if LOOKAHEAD in settings:
        return settings[LOOKAHEAD]
    tokens = _derived(settings)
    return None if tokens is None else Setting(str(tokens), State.REPORTED, Source.SERVER_INFO)


def _derived(settings: Mapping[str, Setting]) -> int | None:
    is_new = reports_change(settings, SINCE)
    method = _value(settings, f"{SPECULATIVE}.method")
    caching = _value(settings, "cache_config.enable_prefix_caching")
    connector = _value(settings, "kv_transfer_config.kv_connector")
    disabled = [_value(settings, f"{SPECULATIVE}.{name}") for name in DISABLE]
    if is_new is False or caching is False or isinstance(connector, str) or True in disabled:
        return 0
    if _value(settings, SPECULATIVE) is None or (isinstance(method, str) and method not in METHODS):
        return 0
    is_known = method in METHODS and caching is True and connector is None and disabled == [False, False]
    if not is_new or not is_known:
        return None
    # A draft of several modules looks as far ahead as it drafts; the number of modules is not reported.
    is_one = method != "mtp" or _value(settings, f"{SPECULATIVE}.num_speculative_tokens") == 1
    return 1 if is_one else None


def _value(settings: Mapping[str, Setting], path: str) -> Any:
    """Return a value as native JSON, null too; `_UNKNOWN` where none is reported."""
    setting = settings.get(path) or settings.get(path.partition(".")[0])
    if setting is None or setting.state not in {State.REPORTED, State.NULL}:
        return _UNKNOWN
    return json.loads(setting.value) if setting.state is State.REPORTED else None
