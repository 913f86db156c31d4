"""How to install the provider on a replica that does not have it."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboard import __version__
from dashboard.fleet import Replica, ReplicaState, Setting, Source, State
from dashboard.fleet.pieces import Piece, Style, plain
from dashboard.rules.behaviour.development_mode import PLUGINS, PROVIDER, PROVIDER_COMMAND, is_older
from dashboard.views.blocks import Entries, Entry, Paragraph, Section, Tone

PROVIDER_PATH = "/inference/v1/config"
INSTALL = f"pip install --no-deps vllm_fleet_provider-{__version__}-py3-none-any.whl"
# A shell takes these names literally. Other reported text is never part of a command line.
_NAMES = re.compile(r"[A-Za-z0-9_.-]{1,100}(,[A-Za-z0-9_.-]{1,100}){0,31}")

ABOUT = (
    "The provider is a read-only vLLM plugin. It reports the KV cache of every DP rank and GPU, and fingerprints of "
    "the block hashes, which show which replicas share prefixes."
)
HOW = (
    Piece("Run these lines in vLLM's Python environment, then restart vLLM. "),
    Piece("make wheel", Style.CODE),
    Piece(" builds the wheel."),
)
KEPT = "VLLM_PLUGINS lists every plugin that vLLM loads. Its current names are kept."
UNSET = (
    "VLLM_PLUGINS is not set. Once set, vLLM loads only the plugins in it. The second line prints an export with the "
    "plugins loaded now: run that, too."
)
UNKNOWN = (
    "VLLM_PLUGINS lists every plugin that vLLM loads. The second line prints an export with the plugins loaded now: "
    "run that, too."
)
NAMED = (
    f"VLLM_PLUGINS already has {PROVIDER}, but the provider does not answer. Check that it is installed in vLLM's "
    "Python environment, and restart vLLM."
)
NO_ANSWER = (
    f"If it does not answer: check the spelling of {PROVIDER} in VLLM_PLUGINS (no space after a comma) and the Python "
    "environment, and restart vLLM."
)
KUBERNETES = "Kubernetes: see docs/provider.md."
OLDER = "Tested with vLLM 0.26 and newer; this replica is older and may not load it."


class Instructions(NamedTuple):
    """Lines for a shell, and remarks as sentences."""

    lines: str
    remarks: tuple[str, ...]


def install_instructions(replica: Replica, settings: Mapping[str, Setting]) -> Instructions | None:
    """Return how to install the provider; None where it answers, may be locked, or the replica is down."""
    is_locked = any(probe.path.startswith(PROVIDER_PATH) and probe.failure for probe in replica.probes)
    if Source.PROVIDER in replica.sources or replica.state is ReplicaState.DOWN or is_locked:
        return None
    older = (OLDER,) if is_older(replica.version) else ()
    setting = settings.get(PLUGINS)
    is_known = setting is not None and setting.state in {State.REPORTED, State.NULL}
    names = _plugin_names(json.loads(setting.value)) if setting is not None and is_known else None
    if names and PROVIDER in names.split(","):
        return Instructions(INSTALL, (NAMED, *older))
    if names:
        command, remark = f"export VLLM_PLUGINS={names},{PROVIDER}", KEPT
    else:
        command, remark = PROVIDER_COMMAND, UNSET if setting is not None and setting.state is State.NULL else UNKNOWN
    return Instructions(f"{INSTALL}\n{command}", (remark, NO_ANSWER, KUBERNETES, *older))


def provider_sections(replica: Replica, settings: Mapping[str, Setting]) -> tuple[Section, ...]:
    """Return the section with the instructions; empty where there are none."""
    instructions = install_instructions(replica, settings)
    if instructions is None:
        return ()
    remarks = (Piece(" ".join(instructions.remarks), Style.MUTED),)
    blocks = (
        Paragraph(plain(ABOUT)),
        Entries((Entry(Tone.PLAIN, HOW, snippets=(instructions.lines,)),)),
        Paragraph(remarks),
    )
    return (Section("provider", "Install the provider on this replica", blocks, is_aside=True),)


def _plugin_names(value: Any) -> str | None:
    """Return the names as the variable has them, from the list that vLLM reports."""
    listed = value if isinstance(value, list) else [value]
    names = ",".join(each for each in listed if isinstance(each, str))
    return names if _NAMES.fullmatch(names) else None
