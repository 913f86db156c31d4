"""CO-07: replicas of one pool read tool calls or reasoning in other ways."""

from collections.abc import Iterator, Mapping

from dashboard.fleet import Setting, SettingValue, State
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Family, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

PARSERS = {
    "structured_outputs_config.reasoning_parser": "reasoning parser",
    "tool_call_parser": "tool call parser",
    "enable_auto_tool_choice": "automatic tool choice",
}


@rule(
    id="CO-07",
    name="parsers-differ",
    family=Family.BEHAVIOUR,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=tuple(PARSERS),
)
def parsers_differ(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool read tool calls or reasoning in different ways.

    An empty name of a parser means that there is none. Tool calling is told by the dashboard's provider alone.

    Why it matters:
        - any pool: On some replicas tool calls or reasoning come back as plain text inside the answer, or a request
          with tools is refused with 400, and agents fail now and then.

    How to fix:
        Give every replica of the pool the same `--reasoning-parser`, `--tool-call-parser` and
        `--enable-auto-tool-choice`.

    Exceptions:
        None: clients cannot know which replica answers them.

    Evidence:
        - vllm/entrypoints/launchers/cli_args.py (the options of tool calling)
        - vllm/renderers/online_renderer.py (automatic tool choice is refused where it is not enabled)
        - vllm/config/structured_outputs.py (`reasoning_parser`)
        - ai-dynamo/dynamo#7368 (workers with another parser are kept apart)

    Example:
        Four replicas run with `--reasoning-parser qwen3`, one without it: every fifth answer begins with the model's
        thoughts.
    """
    return drift(pool, PARSERS, _named)


def _named(told: SettingValue, _: Mapping[str, Setting]) -> SettingValue:
    return SettingValue("null", State.NULL) if told.value == '""' else told
