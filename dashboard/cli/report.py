"""The command `report`: the review of a fleet as one file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dashboard import service
from dashboard.analysis.assembly import Fleet
from dashboard.cli import fleets
from dashboard.cli.targets import ConfigOption, PrometheusOption, TargetsArgument, TrafficOption, options_of
from dashboard.cli.terminal import is_terminal, put, say, wrong
from dashboard.config import Options
from dashboard.errors import ReportError
from dashboard.fleet.formatting import size
from dashboard.fleet.times import is_period, is_time
from dashboard.render.export import Format, written
from dashboard.store.opening import configured_snapshots
from dashboard.store.reviews import LastReview, NoLastReview, earlier, last_review, opened
from dashboard.views.changes_text import what_happened
from dashboard.views.review import review_report

NONE = "none"
SUFFIXES = {".html": "html", ".htm": "html", ".pdf": "pdf", ".md": "markdown", ".json": "json"}
SINCE = (
    f"The fleet of the last review, named in the same way, or a period (7d) before this one; {NONE} for no comparison "
    "[default: the snapshot that the Review page uses]."
)


def report(
    target: TargetsArgument = None,
    config: ConfigOption = None,
    prometheus: PrometheusOption = None,
    snapshot: fleets.SnapshotOption = None,
    since: Annotated[str | None, typer.Option(metavar="FILE_ID_OR_PERIOD", help=SINCE)] = None,
    history: fleets.HistoryOption = None,
    token_env: fleets.TokenEnvOption = None,
    output: Annotated[
        Literal["html", "pdf", "markdown", "json"] | None,
        typer.Option("--format", help="Output format  [default: that of the name of -o, else html]."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file; an existing one is overwritten."),
    ] = None,
    traffic: TrafficOption = None,
) -> None:
    """Write the review of a fleet as a file: findings, differences, capacity, changes, unreadable replicas.

    Without --snapshot every replica is polled once. The report of a snapshot includes its notes.

    Changes are those since the last review, found among the saved snapshots as on the Review page. Replicas given by
    address may be a part of the fleet: they are compared only with --since. Since a time of the history they include
    what changed back.

    Exit code 0 for a written report, whatever its findings; 2 for wrong usage or options; 3 without targets.
    """
    kind = _format(output, file)
    if file is None and kind not in {Format.MARKDOWN, Format.JSON} and is_terminal():
        wrong(f"{kind.label} is not printed to a terminal: use -o report.{kind.suffix}, or --format markdown")
    if snapshot == since == fleets.STANDARD_INPUT:
        wrong("-: valid for one of the two fleets only")
    options = options_of(config, target, snapshot=snapshot, prometheus=prometheus, traffic=traffic)
    past = fleets.CommandHistory(options, history, token_env)
    fleet, raw = fleets.fleet_of(snapshot or None, options, history=past, traffic=traffic)
    noted = fleets.notes_of(fleet, raw, options)
    last = _named(since, fleet, options, past) if since else _last(fleet, options, is_part=bool(target))
    happened = fleets.happened_between(last.fleet, fleet, past) if last.fleet else None
    view = review_report(
        fleet,
        before=last.fleet,
        notes=noted.notes,
        before_notes=last.notes,
        name=noted.name,
        missing=last.missing,
        between=what_happened(*happened) if happened else None,
    )
    try:
        content = written(view, kind)
    except ReportError as error:
        wrong(f"--format {kind}: {error}")
    if file is None:
        put(content)
    else:
        fleets.write_file("-o", file, content)
    say(f"{file or 'standard output'}: the review of {fleet.name}, {kind.label}, {size(len(content))}.")


def _format(asked: str | None, file: Path | None) -> Format:
    """Return the format that is asked for, else that of the file's name. Exit with 2 where they contradict."""
    named = SUFFIXES.get(file.suffix.lower()) if file else None
    if asked and named and asked != named:
        wrong(f"-o {file}: the name is that of {Format(named).label}, and --format is {asked}")
    return Format(asked or named or "html")


def _named(since: str, fleet: Fleet, options: Options, history: fleets.CommandHistory) -> LastReview:
    """Open the fleet of --since, if any; a period is before the time of `fleet`.

    Exit with 2 where it is of a history of another fleet.
    """
    if since == NONE:
        return LastReview(missing=NoLastReview.CHOSEN)
    if (is_period(since) or is_time(since)) and not Path(since).exists():
        start = fleets.time_of(since, "--since", fleet.polled_at or service.utc_now())
        past = fleets.past_fleet(start, history)
        fleets.check_is_of(past, fleet)
        return LastReview(fleet=past)
    before, raw = fleets.fleet_of(since, options, option="--since", history=history)
    return LastReview(fleet=before, noted=tuple(fleets.notes_of(before, raw, options).notes.items()))


def _last(fleet: Fleet, options: Options, *, is_part: bool) -> LastReview:
    """Open the last review, and print problems. A part of the fleet has none: the rest would look removed."""
    if is_part:
        return LastReview(missing=NoLastReview.CHOSEN)
    store = configured_snapshots(options)
    known = earlier(store, fleet)
    last = opened(known, last_review(known, fleet), store.fleet)
    if last.problem:
        say(last.problem if last.fleet else f"No comparison with an earlier review. {last.problem}")
    return last
