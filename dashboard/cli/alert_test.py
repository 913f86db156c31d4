"""The command `alert-test`: a test alert to every receiver of notifications."""

import asyncio

import typer

from dashboard import service
from dashboard.cli.targets import ConfigOption, options_of
from dashboard.cli.terminal import FAILED, fail, put, wrong
from dashboard.config import Options
from dashboard.fleet.formatting import count
from dashboard.notify.sending import ReceiverAnswer, describe_receiver, try_receivers


def alert_test(config: ConfigOption = None) -> None:
    """Send a test alert to every receiver of notifications, and print what each answered.

    Exit code 1 where one did not accept it. An Alertmanager resolves the alert by itself after three intervals.
    """
    options = options_of(config)
    if not options.notify.has_receivers:
        wrong(f"no receiver configured; list alertmanagers or webhooks under notify in {options.file}")
    tried = asyncio.run(_try(options))
    if failed := sum(not each.is_accepted for each in tried):
        fail(f"exit {FAILED}: {count(failed, 'receiver')} of {len(tried)} did not accept the test alert.")
    raise typer.Exit


async def _try(options: Options) -> list[ReceiverAnswer]:
    answers = []
    async for receiver, answer in try_receivers(options, service.utc_now()):
        said = f": {answer.said}" if answer.said else ""
        put(f"{describe_receiver(receiver)}: {'ok' if answer.is_accepted else 'failed'}, {answer.text}{said}\n")
        answers.append(answer)
    return answers
