"""Who holds which value, where it is concluded for each replica and not read from the documents."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dashboard.fleet import SettingValue, State
from dashboard.rules.subject import Holders
from dashboard.vllm.canonical import canonical_text

NOT_SET = SettingValue("null", State.NULL)


def held(told: Mapping[str, SettingValue]) -> Holders:
    """Turn replica -> value into value -> replicas, the most frequent first, then by value."""
    holders: dict[SettingValue, list[str]] = defaultdict(list)
    for replica in sorted(told):
        holders[told[replica]].append(replica)
    order = sorted(holders, key=lambda each: (-len(holders[each]), each))
    return {each: tuple(holders[each]) for each in order}


def held_natively(told: Mapping[str, Any]) -> Holders:
    """Turn replica -> native JSON into value -> replicas."""
    return held({replica: told_of(value) for replica, value in told.items()})


def told_of(value: Any) -> SettingValue:
    """Return a native JSON value as what is told; None as an option that is not set."""
    return NOT_SET if value is None else SettingValue(canonical_text(value), State.REPORTED)
