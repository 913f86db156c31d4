"""The command `baseline`: a pool's settings as a file to edit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from dashboard.analysis.assembly import Fleet
from dashboard.cli.fleets import SnapshotOption, fleet_of, write_file
from dashboard.cli.targets import ConfigOption, PrometheusOption, TargetsArgument, options_of
from dashboard.cli.terminal import no_such_pool, put, say, wrong, wrong_options
from dashboard.config.baseline_file import baseline_yaml, configurable, find_settings, update_baseline
from dashboard.config.baselines import read_baseline
from dashboard.config.document import read_file
from dashboard.errors import OptionsError
from dashboard.fleet import Baseline, Pool, ReplicaState, Setting
from dashboard.fleet.formatting import SOME, count, middle_cut, one_line, shortlist
from dashboard.rules.policy import Policy
from dashboard.views.context import context_line, context_of

LONGEST_COMMENT = 80  # characters of a comment in the summary


def baseline(
    pool: Annotated[str, typer.Argument(metavar="POOL", help="The pool.")],
    target: TargetsArgument = None,
    config: ConfigOption = None,
    of: Annotated[
        str,
        typer.Option(
            "--of",
            metavar="COHORT_OR_REPLICA",
            help="The cohort or replica whose settings are used.",
            show_default="the largest cohort",
        ),
    ] = "",
    snapshot: SnapshotOption = None,
    prometheus: PrometheusOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Output file; must not exist.")
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Update this baseline; comments, tolerated and ignored settings are kept.",
        ),
    ] = None,
) -> None:
    """Write a pool's settings as a baseline to edit (YAML).

    List the file under `baselines` in fleet.yaml, or use it once: `check --baseline FILE`.
    """
    if output is not None and update is not None:
        wrong("-o and --update: use one of them; --update writes to its own file")
    if output is not None and output.exists():
        wrong(f"-o {output}: the file exists; use --update {output} to keep its comments")
    options = options_of(config, target, snapshot=snapshot, prometheus=prometheus)
    fleet, _ = fleet_of(snapshot or None, options)
    chosen = _pool(fleet, pool)
    of = of or next((each.letter for each in chosen.cohorts), "")
    settings, source = find_settings(fleet, chosen, of) or ({}, "")
    if not configurable(settings):
        wrong(f"--of {of}: not a cohort or replica of {pool} with settings; there are {_choices(chosen)}")
    if warning := _incomplete_data(fleet, chosen, of):
        say(warning)
    context = context_line(context_of(fleet))
    if update is not None:
        _update(update, pool, settings, source=source, context=context)
        return
    text = baseline_yaml(pool, settings, source=source, context_line=context)
    if output is None:
        put(text)
        return
    write_file("-o", output, text.encode())
    say(f"{output}: {count(len(configurable(settings)), 'setting')} of {source}.")


def _pool(fleet: Fleet, name: str) -> Pool:
    found = next((each for each in fleet.pools if each.name == name), None)
    if found is None:
        no_such_pool(name, (each.name for each in fleet.pools))
    return found


def _choices(pool: Pool) -> str:
    letters = [cohort.letter for cohort in pool.cohorts]
    return f"the cohorts {shortlist(letters, SOME)}, and replicas by name or address" if letters else "none"


def _incomplete_data(fleet: Fleet, pool: Pool, of: str) -> str:
    """Return a warning where all replicas behind the baseline were read partially; else nothing."""
    cohort = next((each.replicas for each in pool.cohorts if each.letter == of), ())
    members = [each for each in fleet.replicas if each.id in cohort or (not cohort and of in {each.id, each.name})]
    if any(each.state is ReplicaState.UP for each in members):
        return ""
    names = [f"{each.name} ({each.failure.detail.rstrip('.')})" if each.failure else each.name for each in members]
    return f"Incomplete data, so settings are missing: {shortlist(names, SOME)}. Poll them again before you use it."


def _update(file: Path, pool: str, settings: Mapping[str, Setting], *, source: str, context: str) -> None:
    text, old = _read(file)
    if Policy(baselines=(old,)).baseline(pool) is None:
        wrong(f"--update {file}: baseline of {old.pool}, not of {pool}")
    new = update_baseline(text, old, settings, source=source, context_line=context)
    write_file("--update", file, new.text.encode())
    for path in new.commented:
        comment = middle_cut(one_line(old.comments[path]), LONGEST_COMMENT)
        say(f"{file}: {path} changed; check its comment: # {comment}")
    kinds = (("changed", new.changed), ("added", new.added), ("kept though not reported", new.not_reported))
    parts = [f"{len(paths):,} {what} ({shortlist(paths, SOME)})" for what, paths in kinds if paths]
    say(f"{file} updated to {source}: {'; '.join(parts) or 'no changes'}.")


def _read(file: Path) -> tuple[str, Baseline]:
    """Return a baseline's text and content; exit with 2 where it is none."""
    try:
        raw = read_file(file, "use -o FILE for a new one")
    except OptionsError as error:
        wrong(f"--update {error}")
    old, mistakes = read_baseline(raw, file.name)
    if old is None:
        wrong_options([f"{file}:{line}: {text}" for line, text in mistakes])
    return raw.decode("utf-8-sig"), old
