"""An import in a process of its own: what it makes comes back as bytes that can be frozen, never as objects."""

import json
import pickle
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dashboard.rules.policy import Policy
from dashboard.sources.importing.files import File, Refused
from dashboard.sources.importing.fleets import imported
from dashboard.store import child
from dashboard.store.carrying import Carried
from dashboard.store.packing import content_of
from dashboard.store.sidecar import Sidecar, sidecar_of
from dashboard.vllm import redaction


class Checked(NamedTuple):
    """A fleet that can be frozen: the file that it came from, its content, its description, and what came with it."""

    file: str
    content: bytes
    beside: Sidecar
    carried: Carried


class Import(NamedTuple):
    """The fleets that were made, and what was refused."""

    fleets: tuple[Checked, ...]
    refused: tuple[Refused, ...]


def import_files(
    files: Sequence[File], at: datetime, name: str, *, policy: Policy | None = None, ignore: Sequence[str] = ()
) -> Import:
    """Do what `imported` does within limits of memory and time; raise SnapshotError where these do not suffice."""
    sent = pickle.dumps((redaction.in_force(), list(files), at, name, policy, list(ignore)))
    answered = child.run_limited(__name__, sent)
    line, _, rest = answered.partition(b"\n")
    head = json.loads(line)
    fleets: list[Checked] = []
    for file, size, beside, carried in head["fleets"]:
        content, rest = rest[:size], rest[size:]
        fleets.append(Checked(file, content, Sidecar.model_validate_json(beside), Carried.model_validate_json(carried)))
    return Import(tuple(fleets), tuple(Refused(*each) for each in head["refused"]))


def main() -> None:
    """Read what `import_files` wrote, and write what it reads."""
    child.limit()
    redacted, files, at, name, policy, ignore = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  ours wrote it
    redaction.adopt(redacted)
    found = imported(files, at, name, policy=policy, ignore=ignore)
    contents = [content_of(fleet) for _, fleet, _ in found.fleets]
    found_fleets = [
        (file, len(content), sidecar_of(fleet, "", at).model_dump_json(), carried.model_dump_json(by_alias=True))
        for (file, fleet, carried), content in zip(found.fleets, contents, strict=True)
    ]
    head = json.dumps({"fleets": found_fleets, "refused": found.refused})
    sys.stdout.buffer.write(b"\n".join((head.encode(), b"".join(contents))))


if __name__ == "__main__":
    main()
