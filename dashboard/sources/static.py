"""The targets that are written in fleet.yaml itself."""

from dashboard.config import CredentialsOptions, Options
from dashboard.fleet import Credentials, Target


def static_targets(options: Options) -> tuple[Target, ...]:
    """Return the listed targets; their addresses were checked when the options were read."""
    return tuple(
        Target(each.url, each.labels, credentials_from(each.credentials, options.credentials))
        for each in options.targets
    )


def credentials_from(own: CredentialsOptions | None, for_all: CredentialsOptions | None) -> Credentials | None:
    """Return a target's own credentials, else those for all. Never a mixture: a token goes only where it was meant."""
    chosen = own or for_all
    if chosen is None:
        return None
    return Credentials(chosen.token_env, chosen.token_file, chosen.ca_file)
