"""The command `check`: the rules evaluated on a fleet, for CI."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.analysis.assembly import Fleet, inspected
from dashboard.analysis.changes.comparison import spread_findings
from dashboard.cli import fleets, targets
from dashboard.cli.terminal import WRONG_USAGE, fail, is_terminal, put, say, width, wrong
from dashboard.config import Options, policy_of
from dashboard.config.baselines import relative_name
from dashboard.fleet import Baseline
from dashboard.fleet.formatting import count, iso
from dashboard.render.export import CheckFormat, written_check
from dashboard.render.verdict import verdict_of
from dashboard.rules.baseline import shown_part
from dashboard.rules.catalogue import RULE_SET
from dashboard.rules.findings import Severity
from dashboard.rules.policy import Policy
from dashboard.views.context import gap_text
from dashboard.views.excluded import unknown_hint

Level = Literal["critical", "warning", "info", "never"]


def check(
    target: targets.TargetsArgument = None,
    config: targets.ConfigOption = None,
    prometheus: targets.PrometheusOption = None,
    snapshot: fleets.SnapshotOption = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Another baseline than those of the options; a deviation fails unless --fail-on is never. Repeatable.",
        ),
    ] = None,
    fail_on: Annotated[
        Level,
        typer.Option(
            help="The lowest severity that fails. Critical: something is broken now; a warning can be intended."
        ),
    ] = "critical",
    output: Annotated[CheckFormat, typer.Option("--format", help="Output format.")] = "table",
    min_coverage: Annotated[
        float,
        typer.Option(metavar="PERCENT", min=0, max=100, help="Minimum share of targets that answer, also partially."),
    ] = 100,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD_OR_TIME",
            help="Print and fail only on findings that came within this period (24h, 7d) or since this time.",
        ),
    ] = None,
    history: fleets.HistoryOption = None,
    token_env: fleets.TokenEnvOption = None,
    traffic: targets.TrafficOption = None,
    cluster: targets.ClusterOption = None,
    *,
    brief: Annotated[bool, typer.Option("--brief", help="With table: print the summary only.")] = False,
) -> None:
    """Poll every replica once, evaluate the rules, and print the findings.

    Rules of the family effect need traffic: use --traffic, else they are skipped.

    With --since the history decides which findings are new. One that came back is new, and one that is on more
    replicas and a larger share of its pools than at the start of the period, unless these are in a rollout; one that
    only a newer rule set finds is not. Exit code 2 also where the history does not cover the period.

    Exit code 2 for wrong usage or options, else 1 for a finding that fails, else 3 for too little coverage, else 0.
    The last line on standard error is the reason.
    """
    if snapshot == fleets.LIVE:
        wrong("--snapshot live: leave out --snapshot to poll every replica")
    if since and baseline:
        wrong("--since cannot be combined with --baseline: the history has no deviations from it")
    if history and not since and not snapshot:
        wrong("--history needs --since, or a --snapshot of the history")
    if brief and output != "table":
        wrong(f"--brief cannot be combined with --format {output}")
    options = targets.options_of(config, target, snapshot=snapshot, prometheus=prometheus, traffic=traffic)
    past = fleets.CommandHistory(options, history, token_env)
    given = fleets.given_baselines(baseline or ())
    if snapshot:
        fleet = _saved(snapshot, options, config, given, past)
    else:
        fleet = targets.polled(options.with_agreed(fleets.all_baselines(options.agreed, given)), traffic=traffic)
    unread_lists = () if snapshot else fleet.discovery_errors
    left_out = ""
    if since:
        fleet, left_out = _only_new(fleet, since, past)
    fleet = targets.select_cluster(fleet, cluster)
    level = None if fail_on == "never" else Severity(fail_on)
    verdict = verdict_of(fleet, level, min_coverage, unread_lists, tuple(each.file for each in given), left_out)
    put(
        written_check(
            output,
            fleet,
            verdict,
            level,
            at=service.utc_now(),
            options=relative_name(options.path, Path.cwd()),
            width=width(),
            colour=is_terminal(),
            is_brief=brief,
        )
    )
    hint = unknown_hint(fleet)
    if hint and output == "table":
        put(f"{hint}\n")
    elif hint:
        say(hint)
    files = [f" in {shown_part(each.file)}:" for each in given]
    of_files = [note for note in fleet.inspection.notes if any(file in note for file in files)]
    for sentence in (*of_files, *([left_out] if left_out else []), verdict.sentence):
        say(sentence)
    raise typer.Exit(verdict.code)


def _only_new(fleet: Fleet, since: str, history: fleets.CommandHistory) -> tuple[Fleet, str]:
    """Return the fleet with its new findings and those that spread, and how many others it has.

    Exit with 2 without a history.
    """
    now = fleet.polled_at or service.utc_now()
    start = fleets.time_of(since, "--since", now)
    before, _ = fleets.recorded_at(history, start)
    newest, rule_set = fleets.recorded_at(history, min(now, service.utc_now()))
    fleets.check_is_of(newest, fleet)
    if newest.polled_at is None or newest.polled_at < start:
        fail(f"exit {WRONG_USAGE}: The history has no poll since {iso(start)}.", WRONG_USAGE)
    for past in (before.past, newest.past):
        if past and past.gap:
            say(gap_text(past.gap))
    sightings, is_same_rules = newest.sightings.findings, rule_set == RULE_SET
    found = fleet.inspection.findings
    new_ids = set()
    for each in found:
        sighting = sightings.get(each.fingerprint)
        if sighting.is_new_since(start) if sighting else is_same_rules:
            new_ids.add(each.id)
    spread = spread_findings(before, fleet) - new_ids
    new = [each for each in found if each.id in new_ids | spread]
    part = replace(fleet, inspection=replace(fleet.inspection, findings=tuple(new)))
    known = count(len(found) - len(new), "finding")
    rules = "" if is_same_rules else f" or found by rule set {RULE_SET} only"
    left = f"{known} left out: there before {iso(start)}{rules}." if len(new) < len(found) else ""
    more = f"{count(len(spread), 'finding is', 'findings are')} not new, but on more replicas than at {iso(start)}."
    return part, " ".join(filter(None, (left, more if spread else "")))


def _saved(
    text: str, options: Options, config: Path | None, given: Sequence[Baseline], history: fleets.CommandHistory
) -> Fleet:
    """Return a saved fleet, evaluated as of its time; suppressions expire by today's date.

    Options about pools or rules decide, as do those of --config; otherwise the ones saved with the fleet.
    """
    fleet, _ = fleets.fleet_of(text, options, history=history)
    policy = policy_of(options)
    is_silent = config is None and replace(policy, file="") == Policy(file="")
    if is_silent and fleet.policy != Policy():
        say("Evaluated with the options saved in the snapshot.")
        policy = fleet.policy
    elif fleet.policy != policy:
        say(f"Evaluated with {policy.file}, not with the options saved in the snapshot.")
    policy = replace(policy, baselines=fleets.all_baselines(policy.baselines, given))
    now = service.utc_now()
    return inspected(replace(fleet, policy=policy), fleet.polled_at or now, now.date())
