"""The command `token`: tokens of programs."""

import re
import secrets
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Annotated, Literal

import typer
import yaml

from dashboard.cli.terminal import APP, put, say, wrong

PREFIX = "fleet_"  # scanners for secrets find tokens by it
SECRET_BYTES = 32
NAME = re.compile(r"[\w.@-]{1,100}")

token = typer.Typer(**APP)


@token.callback()
def about() -> None:
    """Make tokens, with which programs use a dashboard that needs a sign-in."""


@token.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses it, in the audit log: ci, prometheus.")],
    role: Annotated[
        Literal["viewer", "editor", "admin"], typer.Option(help="viewer reads, editor saves, admin deletes.")
    ] = "viewer",
    expires: Annotated[
        str | None, typer.Option(metavar="DATE", help="Last day, such as 2027-12-31 [default: never].")
    ] = None,
) -> None:
    """Print a new token, and on standard error the entry of access.tokens in fleet.yaml that accepts it.

    The token is printed once: fleet.yaml has its SHA-256 only. Programs send it as Authorization: Bearer.
    """
    if not NAME.fullmatch(name):
        wrong(f"{name!r}: a name has letters, digits and _ . @ -, 100 at most")
    entry: dict[str, object] = {"name": name, "role": role}
    text = f"{PREFIX}{secrets.token_urlsafe(SECRET_BYTES)}"
    entry["sha256"] = sha256(text.encode()).hexdigest()
    if expires is not None:
        entry["expires"] = last = _day(expires)
        if last < datetime.now(UTC).date():
            wrong(f"--expires {expires}: in the past")
    put(f"{text}\n")
    say("Add to access.tokens in fleet.yaml, or to tokens in the file of access.tokens_file:")
    say(yaml.safe_dump([entry], sort_keys=False).rstrip())


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007  a date has no zone
    except ValueError:
        wrong(f"--expires {text}: expected a date such as 2027-12-31")
