"""Values that mean the same: each function returns the value that counts for a comparison.

A row of simple_rules.yaml names one of them under `meaning`.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from dashboard.compare.equality import AUTO, NOT_SET, Meaning, default_branch, random_weights, resolved_kv_dtype
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connector_options import EXTRA, native, option, reports_options
from dashboard.rules.findings import Draft
from dashboard.rules.subject import Holders, PoolSubject, setting_value

CACHE_DTYPE = "cache_config.cache_dtype"
BATCHED_TOKENS = "scheduler_config.max_num_batched_tokens"
YES, NO = SettingValue("true", State.REPORTED), SettingValue("false", State.REPORTED)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a Python object: another one in every process


def empty_is_unset(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count an empty object or text as not set, and remove memory addresses of Python objects."""
    return NOT_SET if value.value in ("{}", '""') else value._replace(value=ADDRESS.sub("", value.value))


def unset_is_false(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count a switch that is not set as off."""
    return NO if value.state is State.NULL else value


def unset_is_true(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count a switch that is not set as on."""
    return YES if value.state is State.NULL else value


def number_or_switch(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count 0 and 1 as off and on, as numbers or texts; not set is on."""
    return {"0": NO, "1": YES}.get(str(json.loads(value.value)), YES if value.state is State.NULL else value)


def follows_batched_tokens(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a limit that equals max_num_batched_tokens as not set: vLLM copies it for some models."""
    batched = settings.get(BATCHED_TOKENS)
    return NOT_SET if batched is not None and batched.value == value.value else value


MEANINGS: dict[str, Meaning] = {
    each.__name__: each
    for each in (
        resolved_kv_dtype,
        default_branch,
        random_weights,
        empty_is_unset,
        unset_is_false,
        unset_is_true,
        number_or_switch,
        follows_batched_tokens,
    )
}


def revisions(pool: PoolSubject, path: str, snapshot: str, unpinned: SettingValue) -> Holders:
    """Group replicas by revision: the configured one, else the commit of the hub snapshot at the path `snapshot`.

    `unpinned` is the value for no revision. Where no replica pins one, it agrees with every commit and is left out.
    """

    def loaded(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
        if default_branch(value, settings) != NOT_SET:
            return value
        has_commit = native(settings, snapshot) is not None
        return SettingValue(settings[snapshot].value, State.REPORTED) if has_commit else unpinned

    holders = pool.values(path, loaded)
    is_pinned = pool.values(path, default_branch).keys() - {NOT_SET}
    commits = {value: replicas for value, replicas in holders.items() if value != unpinned}
    return commits if commits and not is_pinned else holders


def assume_if_auto(draft: Draft, assumption: str) -> Draft:
    """Mark a difference as assumed where one value is `auto`: what it resolves to is not reported."""
    is_auto = any(each.value == AUTO.value for each in draft.evidence)
    return replace(draft, assumptions=(assumption,)) if is_auto else draft


def with_options(pool: PoolSubject, names: Collection[str]) -> PoolSubject:
    """Return a pool whose documents report each of these connector options, null where a config leaves it out.

    An option of a connector inside a MultiConnector has the path that it has outside of it.
    """
    documents = {}
    for key in {str(member.document) for member in pool.all_replicas} & pool.documents.keys():
        documents[key] = pool.documents[key]
        settings = documents[key].settings
        if reports_options(settings):
            source = next(iter(settings.values())).source
            values = {name: setting_value(option(settings, name)) for name in names}
            options = {f"{EXTRA}.{name}": Setting(*value, source) for name, value in values.items()}
            documents[key] = replace(documents[key], settings={**settings, **options})
    return replace(pool, documents=documents)
