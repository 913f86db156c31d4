"""The command `baseline`: what a pool should look like, as a file, made of what its replicas tell."""

from pathlib import Path
from typing import Annotated

import typer

from dashboard.analysis.assembly import Fleet
from dashboard.cli.saved import fleet_of, hindered, write_file
from dashboard.cli.targets import BESIDE_ADDRESSES, ConfigOption, TargetsArgument, options_of
from dashboard.cli.terminal import no_such_pool, put, say, wrong, wrong_options
from dashboard.config.baseline_file import Taken, agreeable, baseline_yaml, taken_from, updated
from dashboard.config.baselines import read_baseline
from dashboard.config.document import MAX_DOCUMENT_BYTES
from dashboard.fleet import Baseline, Pool, ReplicaState
from dashboard.fleet.formatting import count, first_of, middle_cut, one_line
from dashboard.rules.policy import Policy
from dashboard.views.context import context_line, context_of

LARGEST = "A"  # cohort
LONGEST_COMMENT = 80  # characters of what people wrote, in the summary
MOST_NAMED = 5  # settings of a kind that the summary names


def baseline(
    pool: Annotated[str, typer.Argument(metavar="POOL", help="The pool that it is for.")],
    target: TargetsArgument = None,
    config: ConfigOption = None,
    of: Annotated[
        str, typer.Option("--of", metavar="COHORT_OR_REPLICA", help="The cohort or the replica that it is made of.")
    ] = LARGEST,
    snapshot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_ID",
            help="Take it from what `poll --format json --full` saved, or from a frozen snapshot, and ask nobody.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it to this new file.")
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Bring this baseline up to date: comments, tolerated and ignored settings stay as people wrote them.",
        ),
    ] = None,
) -> None:
    """Write what a pool should look like, as a YAML file for people to edit.

    Name the file under `baselines` in fleet.yaml, or check with it: `check --baseline FILE`.
    """
    if output is not None and update is not None:
        wrong("-o and --update: --update writes the file that it names; leave one out")
    if output is not None and output.exists():
        wrong(f"-o {output}: it is there already; --update {output} keeps what people wrote in it")
    if snapshot and target:
        wrong(BESIDE_ADDRESSES)
    fleet = fleet_of(snapshot or None, options_of(config, target), option="--snapshot")
    chosen = _pool(fleet, pool)
    taken = taken_from(fleet, chosen, of)
    if taken is None or not agreeable(taken.settings):
        wrong(f"--of {of}: no cohort or replica of {pool} that tells a setting; there are {_choices(chosen)}")
    if half := _half_read(fleet, chosen, of):
        say(half)
    if update is not None:
        _update(update, pool, taken)
        return
    text = baseline_yaml(pool, taken.settings, made_of=taken.made_of, context_line=context_line(context_of(fleet)))
    if output is None:
        put(text)
        return
    write_file("-o", output, text.encode())
    say(f"{output}: {count(len(agreeable(taken.settings)), 'setting')} of {taken.made_of}.")


def _pool(fleet: Fleet, name: str) -> Pool:
    found = next((each for each in fleet.pools if each.name == name), None)
    if found is None:
        no_such_pool(name, (each.name for each in fleet.pools))
    return found


def _choices(pool: Pool) -> str:
    letters = [cohort.letter for cohort in pool.cohorts]
    return f"the cohorts {first_of(letters, MOST_NAMED)}, and replicas by name or address" if letters else "none"


def _half_read(fleet: Fleet, pool: Pool, of: str) -> str:
    """Say who was read in part, where nobody that it is made of was read in full; else nothing."""
    held = next((each.replicas for each in pool.cohorts if each.letter == of), ())
    members = [each for each in fleet.replicas if each.id in held or (not held and of in {each.id, each.name})]
    if any(each.state is ReplicaState.UP for each in members):
        return ""
    told = [f"{each.name} ({each.failure.detail.rstrip('.')})" if each.failure else each.name for each in members]
    return (
        f"Read in part, so settings are missing: {first_of(told, MOST_NAMED)}. Read them again before you agree on it."
    )


def _update(file: Path, pool: str, taken: Taken) -> None:
    """Write a baseline's file anew, and say what became of it."""
    text, old = _read(file)
    if Policy(baselines=(old,)).baseline(pool) is None:
        wrong(f"--update {file}: it is the baseline of {old.pool}, not of {pool}")
    new = updated(text, old, taken.settings)
    write_file("--update", file, new.text.encode())
    for path in new.remarked:
        comment = middle_cut(one_line(old.comments[path]), LONGEST_COMMENT)
        say(f"{file}: {path} changed; see whether what stands beside it still holds: # {comment}")
    kinds = (("changed", new.changed), ("added", new.added), ("kept though not told", new.not_told))
    told = [f"{len(paths):,} {what} ({first_of(paths, MOST_NAMED)})" for what, paths in kinds if paths]
    say(f"{file}, brought up to {taken.made_of}: {'; '.join(told) or 'nothing changed'}.")


def _read(file: Path) -> tuple[str, Baseline]:
    """Return a baseline as it is written, and what it says; end with 2 where it is none."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        why = hindered(error, "name the file of a baseline", "-o FILE writes a new one")
        wrong(f"--update {file}: {why}")
    old, mistakes = read_baseline(raw, file.name)
    if old is None:
        wrong_options([f"{file}:{line}: {text}" for line, text in mistakes])
    return raw.decode("utf-8-sig"), old
