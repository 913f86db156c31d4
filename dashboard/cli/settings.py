"""The command `settings`: the values of one setting on all replicas."""

import json
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Literal

import typer

from dashboard.analysis.assembly import Fleet
from dashboard.cli import targets
from dashboard.cli.fleets import SnapshotOption, fleet_of
from dashboard.cli.terminal import is_terminal, no_such_pool, put, width, wrong
from dashboard.fleet import Role
from dashboard.fleet.formatting import MOST, SOME, count, natural, shortlist
from dashboard.render.tabular import setting_object, to_table_csv
from dashboard.render.terminal import to_terminal
from dashboard.views import setting
from dashboard.views.blocks import View
from dashboard.views.context import context_of
from dashboard.views.settings import setting_values, settings_report
from dashboard.vllm.field_reference import known_paths


def settings(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The setting, such as cache_config.block_size or block_size; or a section, such as cache_config.",
        ),
    ],
    target: targets.TargetsArgument = None,
    config: targets.ConfigOption = None,
    snapshot: SnapshotOption = None,
    prometheus: targets.PrometheusOption = None,
    pool: Annotated[str | None, typer.Option(metavar="GLOB", help="Print only pools with such a name.")] = None,
    cluster: targets.ClusterOption = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Print only replicas of this vLLM version.")
    ] = None,
    role: Annotated[Role | None, typer.Option(help="Print only replicas with this role.")] = None,
    label: Annotated[str, typer.Option(metavar="KEY=VALUE", help="Print only replicas with this label.")] = "",
    output: Annotated[Literal["table", "json", "csv"], typer.Option("--format", help="Output format.")] = "table",
) -> None:
    """Print the values of one setting on all replicas, and its type, default and flag by vLLM version.

    Of a section it lists the settings. Without --snapshot every replica is polled once. Exit code 0 also with
    unreachable replicas; 2 for an unknown setting, wrong usage or options; 3 without targets.
    """
    path = _whole_path(path)
    if snapshot is None:
        _refuse_misspelled(path)
    if label and not all("=" in each for each in label.split()):
        wrong("--label: expected KEY=VALUE, such as site=north")
    fleet, _ = fleet_of(snapshot, targets.options_of(config, target, snapshot=snapshot, prometheus=prometheus))
    if not fleet.replicas:
        targets.no_targets(fleet.discovery_errors)
    fleet = targets.select_cluster(fleet, cluster)
    if pool is not None and not any(setting.pool_values(fleet, path, setting.SettingFilter(pool=pool))):
        no_such_pool(pool, (each.name for each in fleet.pools), unknown="--pool: no pool matches")
    versions = {each.version for each in fleet.replicas if each.version}
    if version is not None and version not in versions:
        there_are = shortlist(sorted(versions, key=natural), MOST) or "none"
        wrong(f"--version: no replica has vLLM {version}; there are {there_are}")
    choice = setting.SettingFilter(pool=pool, version=version, role=role, label=label)
    every = {*known_paths(), *(each for document in fleet.documents.values() for each in document.settings)}
    inside = sorted(each for each in every if each.startswith(f"{path}."))
    if not inside and (similar := setting.similar_settings(fleet, path)) is not None:
        known = f"; similar: {shortlist(similar, SOME)}" if similar else ""
        wrong(f"{path}: no replica and no vLLM version has this setting{known}")
    if output == "table":
        view = _section_view(fleet, path, choice) if inside else setting.setting_report(fleet, path, choice)
        put(to_terminal(view, width=width(), colour=is_terminal()))
        return
    found = {each: tuple(setting.pool_values(fleet, each, choice)) for each in inside or [path]}
    if inside:  # of a section only what is reported
        found = {each: values for each, values in found.items() if any(value.is_reported for value in values)}
    if output == "json":
        texts = [setting_object(each, values) for each, values in found.items()]
        put(f"{json.dumps(texts if inside else texts[0], indent=2, ensure_ascii=False)}\n")
    else:
        rows = [row for each, values in found.items() for row in setting.values_data(each, values).rows]
        context = context_of(fleet, filters=[("path", path), *choice.chosen])
        put(to_table_csv(replace(setting.values_data(path, ()), rows=tuple(rows)), context))


def _section_view(fleet: Fleet, section: str, choice: setting.SettingFilter) -> View:
    """Return the settings of a section that replicas report; a section that is off is one setting that is null."""
    rows = setting_values(fleet, choice)
    paths = rows["path"]
    inside = rows[(paths == section) | paths.str.startswith(f"{section}.")]
    return replace(settings_report(fleet, choice, rows=inside), title=section, lead="")


def _whole_path(text: str) -> str:
    """Return the path of a setting with this last name; exit with 2 where several have it. Others are as they are."""
    known = known_paths()
    if text in known or "." in text:
        return text
    paths = sorted(each for each in known if each.rpartition(".")[2] == text)
    if len(paths) > 1:
        wrong(f"{text}: {count(len(paths), 'setting')} with this name: {shortlist(paths, MOST)}")
    return paths[0] if paths else text


def _refuse_misspelled(path: str) -> None:
    """Exit with 2 for a path that no vLLM version has, but almost, before anything is targets.polled.

    Other paths are not refused: replicas of a newer version may report them.
    """
    known = known_paths()
    section, dot, name = path.rpartition(".")
    if path in known or section == "env" or any(each.startswith(f"{path}.") for each in known):
        return
    sections = {each.partition(".")[0] for each in known if not dot}
    by_name = {each.rpartition(".")[2]: each for each in (*known, *sections) if each.startswith(f"{section}{dot}")}
    alike = [by_name[each] for each in get_close_matches(name, by_name, SOME, setting.ALIKE)]
    if similar := alike or sorted(each for each in known if each.endswith(f".{name}")):
        wrong(f"{path}: no vLLM version has this setting; similar: {shortlist(similar, SOME)}")
