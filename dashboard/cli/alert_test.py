"""The command `alert-test`: a test alert to every receiver of notifications."""

import asyncio

import typer

from dashboard import service
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import FAILED, fail, put, wrong
from dashboard.config import Options
from dashboard.fleet.formatting import count, one_line
from dashboard.notify.sending import ReceiverTrial, try_receivers


def alert_test(config: ConfigOption = None) -> None:
    """Send a test alert to every receiver of notifications, and print what each answered.

    Exit code 1 where one did not accept it. An Alertmanager resolves the alert by itself after three intervals.
    """
    options = options_of(config)
    if not options.notify.has_receivers:
        wrong(f"no receiver configured; list alertmanagers or webhooks under notify in {options.file}")
    tried = asyncio.run(_try(options))
    if failed := sum(not each.answer.is_accepted for each in tried):
        fail(f"exit {FAILED}: {count(failed, 'receiver')} of {len(tried)} did not accept the test alert.")
    raise typer.Exit


async def _try(options: Options) -> list[ReceiverTrial]:
    tried = []
    async for each in try_receivers(options, service.utc_now()):
        named = f"{each.kind} {one_line(each.name)}".rstrip()
        place = "" if each.host in {"", each.name} else f" ({each.host})"
        said = f": {each.answer.said}" if each.answer.said else ""
        put(f"{named}{place}: {'ok' if each.answer.is_accepted else 'failed'}, {each.answer.text}{said}\n")
        tried.append(each)
    return tried
