"""What to type so that a replica without the provider tells more of itself. Text and lines to copy, from values."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboard import __version__
from dashboard.fleet import Replica, ReplicaState, Setting, Source, State
from dashboard.rules.behaviour.development_mode import PROVIDER, PROVIDER_COMMAND, is_older
from dashboard.sources.polling.probes import INFERENCE_CONFIG

VARIABLE = "env.VLLM_PLUGINS"
INSTALL = f"pip install --no-deps vllm_fleet_provider-{__version__}-py3-none-any.whl"
# A name that a shell takes as it is: what a server says is never put into a line to be run unless it is such a list.
_NAMES = re.compile(r"[A-Za-z0-9_.-]{1,100}(,[A-Za-z0-9_.-]{1,100}){0,31}")

TITLE = "Let this replica tell more"
ADDS = (
    "The provider is a small plugin inside vLLM that only reads: it tells the KV cache of every DP rank and GPU, and a "
    "fingerprint of the block hashes, which says with whom prefixes can be shared."
)
HOW, BUILT = (
    "With vLLM's Python and in its environment, before it is started again; the wheel is built by",
    "make wheel",
)
KEPT = "VLLM_PLUGINS names every plugin that vLLM may load: what it names now is kept."
UNSET = (
    "VLLM_PLUGINS is not set there; once it is, vLLM loads only what it names. The second line prints the one that "
    "sets it, with the names of what vLLM loads now: run that one too."
)
UNKNOWN = (
    "VLLM_PLUGINS names every plugin that vLLM may load. The second line prints the one that sets it, with the names "
    "of what vLLM loads now: run that one too."
)
NAMED = (
    f"VLLM_PLUGINS names {PROVIDER} already, but it does not answer: is it installed in the Python that runs vLLM, and "
    "was vLLM started again?"
)
STILL = (
    f"It is installed and does not answer? VLLM_PLUGINS has to name {PROVIDER} letter by letter, with no space after a "
    "comma; the wheel has to be in the Python that runs vLLM; and vLLM has to be started after both."
)
ELSEWHERE = "The README shows it for Kubernetes, too."
OLDER = "It was tried with vLLM 0.26 and newer; this one is older and may not load it."


class Offer(NamedTuple):
    """The lines for a shell, and what to mind, in sentences."""

    lines: str
    notes: tuple[str, ...]


def offer(replica: Replica, settings: Mapping[str, Setting]) -> Offer | None:
    """Return what switches the provider on; None where it answers, where nothing does, or where it was not let in."""
    if Source.PROVIDER in replica.sources or replica.state is ReplicaState.DOWN or _failed(replica):
        return None
    told = settings.get(VARIABLE)
    known = told is not None and told.state in {State.REPORTED, State.NULL}
    names = _names(json.loads(told.value)) if told is not None and known else None
    if names and PROVIDER in names.split(","):
        return Offer(INSTALL, (NAMED, *_older(replica)))
    if names:
        name, note = f"export VLLM_PLUGINS={names},{PROVIDER}", KEPT
    else:
        name, note = PROVIDER_COMMAND, UNSET if told is not None and told.state is State.NULL else UNKNOWN
    return Offer(f"{INSTALL}\n{name}", (note, STILL, ELSEWHERE, *_older(replica)))


def _failed(replica: Replica) -> bool:
    """Say whether its path answers in another way than "not here": it may be there, and a key be what lacks."""
    return any(probe.path == INFERENCE_CONFIG and probe.failure for probe in replica.probes)


def _names(told: Any) -> str | None:
    """Return the names as they stand in the variable: vLLM tells them as a list."""
    listed = told if isinstance(told, list) else [told]
    names = ",".join(each for each in listed if isinstance(each, str))
    return names if _NAMES.fullmatch(names) else None


def _older(replica: Replica) -> tuple[str, ...]:
    return (OLDER,) if is_older(replica.version) else ()
