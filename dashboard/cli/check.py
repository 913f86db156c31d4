"""The command `check`: the rules evaluated on a fleet, for CI."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.analysis.assembly import Fleet, inspected
from dashboard.cli.saved import LIVE, SnapshotOption, all_baselines, fleet_of, given_baselines
from dashboard.cli.targets import ConfigOption, Polled, PrometheusOption, TargetsArgument, options_of, polled
from dashboard.cli.terminal import is_terminal, put, say, width, wrong
from dashboard.config import DEFAULT_FILE, FILE_VARIABLE, Options, policy_of
from dashboard.fleet import Baseline
from dashboard.render.export import CHECK_WRITERS, Checked, CheckFormat
from dashboard.render.verdict import verdict_of
from dashboard.rules.baseline import shown_part
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy

Level = Literal["critical", "warning", "info", "never"]


def check(
    target: TargetsArgument = None,
    config: ConfigOption = None,
    prometheus: PrometheusOption = None,
    snapshot: SnapshotOption = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Another baseline than those of the options; a deviation fails unless --fail-on is never. Repeatable."
            ),
        ),
    ] = None,
    fail_on: Annotated[
        Level,
        typer.Option(
            help="The lowest severity that fails. Critical: something is broken now; a warning can be intended."
        ),
    ] = "critical",
    output: Annotated[CheckFormat, typer.Option("--format", help="Output format.")] = CheckFormat.TABLE,
    min_coverage: Annotated[
        float,
        typer.Option(metavar="PERCENT", min=0, max=100, help="Minimum share of targets that answer, also partially."),
    ] = 100,
) -> None:
    """Poll every replica once, evaluate the rules, and print the findings.

    Exit code 2 for wrong usage or options, else 1 for a finding that fails, else 3 for too little coverage, else 0.
    The last line on standard error is the reason.
    """
    if snapshot == LIVE:
        wrong("--snapshot live: leave out --snapshot to poll every replica")
    options, given = (
        options_of(config, target, snapshot=snapshot, prometheus=prometheus),
        given_baselines(baseline or ()),
    )
    fleet, unread_lists = (
        Polled(_saved(snapshot, options, config, given))
        if snapshot
        else polled(options.with_agreed(all_baselines(options.agreed, given)))
    )
    level = None if fail_on == "never" else Severity(fail_on)
    verdict = verdict_of(fleet, level, min_coverage, unread_lists, tuple(each.file for each in given))
    checked = Checked(fleet, verdict, level, service.utc_now(), _options_path(config), width(), is_terminal())
    put(CHECK_WRITERS[output](checked))
    for sentence in (*_hints(fleet, given), verdict.sentence):
        say(sentence)
    raise typer.Exit(verdict.code)


def _saved(text: str, options: Options, config: Path | None, given: Sequence[Baseline]) -> Fleet:
    """Return a saved fleet, evaluated as of its time; suppressions expire by today's date.

    Options about pools or rules decide, as do those of --config; otherwise the ones saved with the fleet.
    """
    fleet = fleet_of(text, options, option="--snapshot")
    policy = policy_of(options)
    is_silent = config is None and replace(policy, file="") == Policy(file="")
    if is_silent and fleet.policy != Policy():
        say("Evaluated with the options saved in the snapshot.")
        policy = fleet.policy
    elif fleet.policy != policy:
        say(f"Evaluated with {policy.file}, not with the options saved in the snapshot.")
    policy = replace(policy, baselines=all_baselines(policy.baselines, given))
    now = service.utc_now()
    return inspected(replace(fleet, policy=policy), fleet.polled_at or now, now.date())


def _hints(fleet: Fleet, given: Sequence[Baseline]) -> list[str]:
    """Return the notes about the given baselines, such as misspelled settings; the output has them too."""
    files = [f" in {shown_part(each.file)}:" for each in given]
    return [note for note in fleet.inspection.notes if any(file in note for file in files)]


def _options_path(config: Path | None) -> str:
    """Return the path of the options relative to this folder, else the file's name alone."""
    file = (config or Path(os.environ.get(FILE_VARIABLE) or DEFAULT_FILE)).absolute()
    return file.relative_to(Path.cwd()).as_posix() if file.is_relative_to(Path.cwd()) else file.name
