"""The command `settings`: the values of one setting on all replicas."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer

from dashboard.cli.fleets import SnapshotOption, fleet_of
from dashboard.cli.targets import ConfigOption, PrometheusOption, TargetsArgument, options_of
from dashboard.cli.terminal import is_terminal, no_such_pool, put, width, wrong
from dashboard.fleet import Role, State
from dashboard.fleet.formatting import MOST, SOME, count, natural, shortlist
from dashboard.render.tabular import to_table_csv
from dashboard.render.terminal import to_terminal
from dashboard.views.setting import (
    PoolValue,
    SettingFilter,
    pool_values,
    setting_report,
    similar_settings,
    values_data,
)
from dashboard.vllm.field_reference import declarations, known_paths, known_sentences


def settings(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The setting, such as cache_config.block_size or block_size.")
    ],
    target: TargetsArgument = None,
    config: ConfigOption = None,
    snapshot: SnapshotOption = None,
    prometheus: PrometheusOption = None,
    pool: Annotated[str | None, typer.Option(metavar="GLOB", help="Print only pools with such a name.")] = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Print only replicas of this vLLM version.")
    ] = None,
    role: Annotated[Role | None, typer.Option(help="Print only replicas with this role.")] = None,
    label: Annotated[str, typer.Option(metavar="KEY=VALUE", help="Print only replicas with this label.")] = "",
    output: Annotated[Literal["table", "json", "csv"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Print the values of one setting on all replicas, and its type, default and flag by vLLM version.

    Without --snapshot every replica is polled once. Exit code 2 for a setting that neither a replica nor a vLLM version
    has, and for wrong usage or options.
    """
    path = _whole_path(path)
    fleet = fleet_of(
        snapshot, options_of(config, target, snapshot=snapshot, prometheus=prometheus), option="--snapshot"
    )
    if not fleet.replicas:
        wrong("no targets")
    in_pool = tuple(pool_values(fleet, path, SettingFilter(pool=pool)))
    if pool is not None and not in_pool:
        no_such_pool(pool, (each.name for each in fleet.pools), unknown="--pool: no pool matches")
    if path not in known_paths() and not any(each.is_reported for each in in_pool):
        similar = shortlist(similar_settings(fleet, path) or (), SOME)
        wrong(f"{path}: no replica and no vLLM version has this setting{similar and f'; similar: {similar}'}")
    versions = {each.version for each in fleet.replicas if each.version}
    if version is not None and version not in versions:
        there_are = shortlist(sorted(versions, key=natural), MOST) or "none"
        wrong(f"--version: no replica has vLLM {version}; there are {there_are}")
    if label and not all("=" in each for each in label.split()):
        wrong("--label: expected KEY=VALUE, such as site=north")
    choice = SettingFilter(pool=pool, version=version, role=role, label=label)
    known = tuple(pool_values(fleet, path, choice))
    view = setting_report(fleet, path, choice)
    if output == "json":
        put(f"{json.dumps(setting_json(path, known), indent=2, ensure_ascii=False)}\n")
    elif output == "csv":
        put(to_table_csv(values_data(path, known), view.context))
    else:
        put(to_terminal(view, width=width(), colour=is_terminal()))


def _whole_path(text: str) -> str:
    """Return the path of a setting with this last name; exit with 2 where several have it. Others are as they are."""
    known = known_paths()
    if text in known or "." in text:
        return text
    paths = sorted(each for each in known if each.rpartition(".")[2] == text)
    if len(paths) > 1:
        wrong(f"{text}: {count(len(paths), 'setting')} with this name: {shortlist(paths, MOST)}")
    return paths[0] if paths else text


def setting_json(path: str, known: Iterable[PoolValue]) -> dict[str, Any]:
    """Return the values of a setting and its declarations as JSON; `value` is null where it is not reported."""
    return {
        "path": path,
        "description": known_sentences().get(path),
        "values": [
            {
                "pool": each.pool or None,
                "value": json.loads(each.value.value) if each.value.state is not State.REDACTED else None,
                "state": str(each.value.state),
                "replicas": [replica.id for replica in each.replicas],
                "cohorts": list(each.cohorts),
                "origins": dict(each.origins),
            }
            for each in known
        ],
        "declared": [
            {
                **each._asdict(),
                "default": None if each.default is None else json.loads(each.default),
                "computed": each.computed or None,
                "flags": list(each.flags),
            }
            for each in declarations(path)
        ],
    }
