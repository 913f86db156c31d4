"""The queries, in PromQL."""

import re
from collections.abc import Sequence

CACHE_CONFIG, CONFIG_INFO = "vllm:cache_config_info", "vllm_fleet_config_info"
DOWN_SINCE = "1h"  # a replica that Prometheus did not reach for longer is no target
_SPECIAL = re.compile(r"[^A-Za-z0-9_:/-]")


def replicas_query(selector: str, label: str = "", addresses: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """Return the query for the series of all replicas, or of those with one of some addresses in a label.

    The value is the time of the scrape: an instant query alone gives its own time. It is 0 for a replica that
    Prometheus cannot reach: vLLM's series end with the first failed scrape, `up` stays. With `by`, series have these
    labels only: a fifth of the bytes.
    """
    chosen = _narrowed(selector, label, addresses) if addresses else selector
    series = [f"timestamp({name}{chosen})" for name in (CACHE_CONFIG, CONFIG_INFO)]
    known = f"present_over_time({CACHE_CONFIG}{chosen}[{DOWN_SINCE}])"
    series.append(f"(up{chosen} == 0 and on (job, instance) {known})")
    return " or ".join(f"max by ({', '.join(by)}) ({each})" if by else each for each in series)


def addresses_query(selector: str, label: str) -> str:
    """Return the query for the addresses in a label."""
    return f"group by ({label}) ({replicas_query(selector)})"


def _narrowed(selector: str, label: str, addresses: Sequence[str]) -> str:
    """Return the selector for these values of a label only."""
    inner = selector.removeprefix("{").removesuffix("}")
    pattern = "|".join(map(_escaped, addresses))
    return f'{{{inner}{inner and ","}{label}=~"{pattern}"}}'


def _escaped(text: str) -> str:
    """Return a regular expression of this text, within a string of PromQL: a backslash is two there."""
    return _SPECIAL.sub(lambda match: f"\\\\x{{{ord(match[0]):x}}}", text)
