"""Values that mean the same: each function returns the value that counts for a comparison.

A row of rules.yaml names one of them under `meaning`.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from dashboard.compare import equality
from dashboard.compare.encoding import lookup_value
from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.connector_options import EXTRA, native, option, reports_options
from dashboard.rules.findings import Draft
from dashboard.rules.subject import NO, YES, PoolSubject, setting_value
from vllm_fleet_provider.shared.identity import SNAPSHOT_PATHS, is_folder

BATCHED_TOKENS = "scheduler_config.max_num_batched_tokens"
OTHER_FOLDER = "a folder with a different name has different content"
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a Python object: another one in every process


def pinned_revision(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue | None:
    """Return the revision that is set by name; a snapshot of the hub's cache and a folder have none."""
    return None if settings.get(SNAPSHOT_PATHS[equality.MODEL]) else equality.named_revision(value, settings)


def empty_is_unset(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count an empty object or text as not set, and remove memory addresses of Python objects."""
    return equality.NOT_SET if value.value in ("{}", '""') else value._replace(value=ADDRESS.sub("", value.value))


def unset_is_false(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return NO if value.state is State.NULL else value


def unset_is_true(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return YES if value.state is State.NULL else value


def number_or_switch(value: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    """Count 0 and 1 as off and on, as numbers or texts; not set is on."""
    return {"0": NO, "1": YES}.get(str(json.loads(value.value)), YES if value.state is State.NULL else value)


def follows_batched_tokens(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Count a limit that equals max_num_batched_tokens as not set: vLLM copies it for some models."""
    batched = settings.get(BATCHED_TOKENS)
    return equality.NOT_SET if batched is not None and batched.value == value.value else value


MEANINGS: dict[str, equality.MeaningOf] = {
    each.__name__: each
    for each in (
        equality.resolved_kv_dtype,
        equality.default_branch,
        equality.without_owner,
        pinned_revision,
        equality.random_weights,
        empty_is_unset,
        unset_is_false,
        unset_is_true,
        number_or_switch,
        follows_batched_tokens,
    )
}


def revisions(pool: PoolSubject, path: str, name: str, unpinned: SettingValue = equality.NOT_SET) -> Holders:
    """Group replicas by revision of the model or tokenizer at the path `name`: configured, else the snapshot's commit.

    A folder has no revision and is left out. `unpinned` is the value for none. Where no replica pins one, it agrees
    with every commit and is left out.
    """
    snapshot, whole = SNAPSHOT_PATHS[name], pool.identity(name)
    pool = pool.only({member.id for member in pool.members if not is_folder(whole.get(member.id))})

    def loaded(value: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
        if equality.default_branch(value, settings) != equality.NOT_SET:
            return value
        has_commit = native(settings, snapshot) is not None
        return SettingValue(settings[snapshot].value, State.REPORTED) if has_commit else unpinned

    holders = pool.values(path, loaded)
    is_pinned = pool.values(path, equality.default_branch).keys() - {equality.NOT_SET}
    commits = {value: replicas for value, replicas in holders.items() if value != unpinned}
    return commits if commits and not is_pinned else holders


def names_as_one(holders: Holders) -> Holders:
    """Count names as one that differ in owner or folders only: the most frequent of them."""
    common: dict[SettingValue, SettingValue] = {}
    found: dict[str, SettingValue] = {}
    for value, ids in holders.items():
        found |= dict.fromkeys(ids, common.setdefault(equality.without_owner(value, {}), value))
    return group_by_value(found)


def assume_if_auto(draft: Draft, assumption: str) -> Draft:
    """Mark a difference as assumed where one value is `auto`: what it resolves to is not reported."""
    is_auto = any(each.value == equality.AUTO.value for each in draft.evidence)
    return replace(draft, assumptions=(assumption,)) if is_auto else draft


def assume_if_folder(draft: Draft, pool: PoolSubject, path: str) -> Draft:
    """Mark a difference in names as assumed where one is a folder: it may be a copy."""
    whole = pool.identity(path)
    has_folder = any(is_folder(whole.get(each)) for row in draft.evidence for each in row.replicas)
    return replace(draft, assumptions=(OTHER_FOLDER,)) if has_folder else draft


def option_values(
    pool: PoolSubject, names: Collection[str], meaning: equality.MeaningOf | None = None
) -> dict[str, Holders]:
    """Return the values by path of connector options, null where a config leaves one out.

    An option of a connector inside a MultiConnector has the path that it has outside of it.
    """

    def read(settings: Mapping[str, Setting], name: str) -> SettingValue | None:
        reported = reports_options(settings)
        value = setting_value(option(settings, name)) if reported else lookup_value(settings, f"{EXTRA}.{name}")
        return meaning(value, settings) if meaning is not None and value is not None else value

    return {f"{EXTRA}.{name}": pool.conclude(partial(read, name=name)) for name in names}
