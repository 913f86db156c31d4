"""Writes deploy/grafana/vllm-fleet.json, the dashboard for Grafana: `make grafana`."""

import json
from collections.abc import Iterable, Mapping

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueJustifyMode,
    BigValueTextMode,
    FieldTextAlignment,
    LegendDisplayMode,
    LegendPlacement,
    LineInterpolation,
    SortOrder,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardSpecialValueMapOptions,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tests.serving import ROOT

FILE = ROOT / "deploy" / "grafana" / "vllm-fleet.json"
SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")
CRITICAL, WARNING, INFO, GOOD, NEUTRAL = "#D55E00", "#E69F00", "#0072B2", "#009E73", "text"  # as on the pages
SEVERITIES = {"critical": CRITICAL, "warning": WARNING, "info": INFO}
FLEET = 'instance=~"$instance"'
LAST = ["lastNotNull"]
LOW_COVERAGE = 0.95  # as in the alert VLLMFleetLowCoverage
Panel = stat.Panel | statetimeline.Panel | table.Panel | timeseries.Panel


def metric(name: str, **labels: str) -> str:
    """Return the selector of a metric of the chosen fleet; labels have a value or several ones: `up|partial`."""
    matchers = [f'{label}{"=~" if "|" in value else "="}"{value}"' for label, value in labels.items()]
    return f"vllm_fleet_{name}{{{', '.join([*matchers, FLEET])}}}"


def or_zero(expression: str) -> str:
    """Return the expression, or 0 where there is nothing to count and the dashboard is scraped."""
    return f"{expression} or 0 * sum({metric('pools')})"


def range_query(expression: str, legend: str = "", ref: str = "A") -> prometheus.Dataquery:
    """Return a query over time."""
    return prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(ref).range().datasource(SOURCE)


def column_query(expression: str, ref: str) -> prometheus.Dataquery:
    """Return a query of the present values as a table."""
    query = prometheus.Dataquery().expr(expression).ref_id(ref).instant().format(PromQueryFormat.TABLE)
    return query.datasource(SOURCE)


def steps(base: str, *others: tuple[float, str]) -> dashboard.ThresholdsConfig:
    """Return thresholds: the base color, and that from each value on."""
    listed = [Threshold(None, base), *(Threshold(value, color) for value, color in others)]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(listed)


def fixed(color: str) -> DynamicConfigValue:
    """Return the property of a fixed color."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})


def reached(color: str) -> list[DynamicConfigValue]:
    """Return the properties of a count that has a color from 1 on."""
    return [DynamicConfigValue("thresholds", steps(NEUTRAL, (1, color)).build())]


def texts(names: Mapping[str, tuple[str, str]]) -> ValueMapping:
    """Return the text and the color of each value."""
    return ValueMap({value: ValueMappingResult(text, color) for value, (text, color) in names.items()})


def counted(title: str, description: str, width: int, queries: Iterable[prometheus.Dataquery]) -> stat.Panel:
    """Return a panel with numbers; the color of each is that of its thresholds."""
    panel = stat.Panel().title(title).description(description).height(4).span(width).datasource(SOURCE)
    panel = panel.targets(list(queries)).thresholds(steps(NEUTRAL)).decimals(0)
    panel = panel.color_mode(BigValueColorMode.VALUE).graph_mode(BigValueGraphMode.NONE)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(LAST)).orientation(VizOrientation.VERTICAL)
    return panel.justify_mode(BigValueJustifyMode.CENTER).text_mode(BigValueTextMode.VALUE)


def over_time(title: str, description: str, width: int, queries: Iterable[prometheus.Dataquery]) -> timeseries.Panel:
    """Return a panel with lines. Values hold until the next poll, so lines are steps."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT)
    tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    panel = timeseries.Panel().title(title).description(description).height(8).span(width).datasource(SOURCE)
    panel = panel.targets(list(queries)).min(0).line_width(2).fill_opacity(0).show_points(VisibilityMode.NEVER)
    panel = panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    panel = panel.line_interpolation(LineInterpolation.STEP_AFTER).legend(legend.show_legend(True).calcs(LAST))
    return panel.tooltip(tooltip)


def columns(
    title: str, description: str, width: int, key: str, shown: Mapping[str, tuple[str, list[DynamicConfigValue]]]
) -> table.Panel:
    """Return a table with a row per value of the label `key`, and a column per query. `shown`: query, properties."""
    refs = {name: chr(ord("A") + number) for number, name in enumerate(shown)}
    names = {key: key.capitalize(), "basis": "Basis", **{f"Value #{ref}": name for name, ref in refs.items()}}
    order = {name: number for number, name in enumerate([key, *(f"Value #{ref}" for ref in refs.values()), "basis"])}
    panel = table.Panel().title(title).description(description).height(8).span(width).datasource(SOURCE)
    panel = panel.align(FieldTextAlignment.AUTO).targets(
        [column_query(query, refs[name]) for name, (query, _) in shown.items()]
    )
    panel = panel.with_transformation(DataTransformerConfig("merge", options={}))
    organized = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    panel = panel.with_transformation(DataTransformerConfig("organize", options=organized)).thresholds(steps(NEUTRAL))
    empty = DashboardSpecialValueMapOptions(SpecialValueMatch.NULL, ValueMappingResult("(never read)"))
    panel = panel.override_by_name(key.capitalize(), [DynamicConfigValue("mappings", [SpecialValueMap(empty)])])
    for name, (_, properties) in shown.items():
        if properties:
            panel = panel.override_by_name(name, properties)
    return panel


def colored(color: str) -> list[DynamicConfigValue]:
    """Return the properties of a column of counts whose text has a color from 1 on."""
    return [*reached(color), DynamicConfigValue("custom.cellOptions", {"type": "color-text"})]


def summary() -> list[Panel]:
    """Return the numbers at the top."""
    answered = f"sum({metric('replicas', state='up|partial')}) / sum({metric('replicas')})"
    replicas = counted(
        "Replicas",
        "Replicas by state. Partial: some answers are missing or unreadable.",
        6,
        [
            range_query(f"sum({metric('replicas', state=state)})", state, ref)
            for ref, state in zip("ABC", ("up", "partial", "down"), strict=True)
        ],
    ).text_mode(BigValueTextMode.VALUE_AND_NAME)
    replicas = replicas.override_by_name("partial", reached(WARNING)).override_by_name("down", reached(WARNING))
    coverage = counted("Coverage", "Replicas that answer, in full or in part.", 3, [range_query(answered)])
    findings = counted(
        "Findings",
        "Active findings by severity. A finding of several pools counts in each.",
        6,
        [
            range_query(or_zero(f"sum({metric('findings', severity=severity)})"), severity, ref)
            for ref, severity in zip("ABC", SEVERITIES, strict=True)
        ],
    ).text_mode(BigValueTextMode.VALUE_AND_NAME)
    for severity, color in SEVERITIES.items():
        findings = findings.override_by_name(severity, reached(color))
    apart = f"count({metric('pool_cohorts')} > 1 unless {metric('pool_rollout')} == 1)"
    differing = "Pools with several cohorts, outside of a rollout."
    failing = "Sources of targets that could not be read at the last poll. Their last targets stay."
    age = "Time since the last complete poll. Its limit is in the panel Age of data."
    return [
        replicas,
        coverage.unit(units.PercentUnit).decimals(1).thresholds(steps(WARNING, (LOW_COVERAGE, GOOD))),
        findings,
        counted("Differing pools", differing, 3, [range_query(or_zero(apart))]).thresholds(steps(GOOD, (1, WARNING))),
        counted("Failing sources", failing, 3, [range_query(f"sum(1 - {metric('source_up')})")]).thresholds(
            steps(GOOD, (1, WARNING))
        ),
        counted("Age of data", age, 3, [range_query(f"max({metric('data_age_seconds')})")]).unit(units.Seconds),
    ]


def pools() -> list[Panel]:
    """Return what is known of each pool, now and over time."""
    by_pool = "by (pool) "
    since = f"time() - min {by_pool}({metric('oldest_finding_timestamp_seconds', severity='critical|warning')})"
    rollout = {"0": ("no", NEUTRAL), "1": ("in progress", INFO)}
    listed = columns(
        "Pools",
        "Pools after the first 100 by name are other. The oldest finding is the oldest critical one or warning.",
        24,
        "pool",
        {
            "Replicas": (f"sum {by_pool}({metric('pool_replicas')})", []),
            "Answered": (f"sum {by_pool}({metric('pool_replicas', state='up|partial')})", []),
            "Cohorts": (f"max {by_pool}({metric('pool_cohorts')})", []),
            "Rollout": (f"max {by_pool}({metric('pool_rollout')})", [DynamicConfigValue("mappings", [texts(rollout)])]),
            "Critical": (f"sum {by_pool}({metric('findings', severity='critical')})", colored(CRITICAL)),
            "Warnings": (f"sum {by_pool}({metric('findings', severity='warning')})", colored(WARNING)),
            "Oldest finding": (since, [DynamicConfigValue("unit", units.Seconds)]),
            "KV cache (tokens)": (
                f"sum by (pool, basis) ({metric('pool_kv_cache_tokens')})",
                [DynamicConfigValue("unit", units.SiShort), DynamicConfigValue("decimals", 2)],
            ),
        },
    )
    cohorts = over_time(
        "Cohorts per pool",
        "A cohort is a set of replicas with identical settings. More than one outside of a rollout is drift.",
        12,
        [range_query(f"max {by_pool}({metric('pool_cohorts')})", "{{pool}}")],
    ).decimals(0)
    findings = over_time(
        "Findings by severity",
        "Active findings. A finding of several pools counts in each.",
        12,
        [range_query(f"sum by (severity) ({metric('findings')})", "{{severity}}")],
    ).decimals(0)
    for severity, color in SEVERITIES.items():
        findings = findings.override_by_name(severity, [fixed(color)])
    rollouts = statetimeline.Panel().title("Rollouts").height(8).span(12).datasource(SOURCE)
    rollouts = rollouts.description("A rollout is in progress while one version of vLLM replaces another in a pool.")
    rollouts = rollouts.with_target(range_query(f"max {by_pool}({metric('pool_rollout')})", "{{pool}}"))
    bars = texts({**rollout, "0": ("no", "transparent")})
    rollouts = rollouts.mappings([bars]).row_height(0.7).line_width(0).show_value(VisibilityMode.NEVER)
    tokens = over_time(
        "KV cache per pool",
        "Tokens of the fresh replicas. Basis assumed: an upper bound. Engines that report no tokens are not in it.",
        12,
        [range_query(f"sum by (pool, basis) ({metric('pool_kv_cache_tokens')})", "{{pool}} ({{basis}})")],
    ).unit(units.SiShort)
    return [listed, cohorts, findings, rollouts, tokens]


def collection() -> list[Panel]:
    """Return how targets are found and polled."""
    by_source = "max by (source) "
    up = texts({"0": ("failing", WARNING), "1": ("ok", GOOD)})
    read = f"1000 * {by_source}({metric('source_last_success_timestamp_seconds')})"
    sources = columns(
        "Sources",
        "Sources of targets. A source that fails keeps its last targets.",
        12,
        "source",
        {
            "State": (
                f"{by_source}({metric('source_up')})",
                [
                    DynamicConfigValue("mappings", [up]),
                    DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
                ],
            ),
            "Targets": (f"{by_source}({metric('source_targets')})", []),
            "Last success": (read, [DynamicConfigValue("unit", units.DateTimeFromNow)]),
        },
    )
    found = over_time(
        "Targets per source",
        "Targets that each source lists.",
        12,
        [range_query(f"{by_source}({metric('source_targets')})", "{{source}}")],
    ).decimals(0)
    metrics = [metric(f"poll_duration_seconds_{part}") for part in ("sum", "count")]
    rates = [f"sum(rate({each}[$__rate_interval]))" for each in metrics]
    duration = over_time(
        "Poll duration",
        "Mean duration of polls, from discovery to the evaluated fleet.",
        8,
        [range_query(" / ".join(rates), "mean")],
    ).unit(units.Seconds)
    age = over_time(
        "Age of data",
        "Time since the last complete poll. Above the limit /healthz is 503.",
        8,
        [
            range_query(f"max({metric('data_age_seconds')})", "age"),
            range_query(f"max({metric('data_age_limit_seconds')})", "limit", "B"),
        ],
    ).unit(units.Seconds)
    dashed = DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]})
    outcomes = over_time(
        "Outcomes of rules",
        "One per rule and pool. Skipped: a setting that the rule needs is not reported.",
        8,
        [range_query(f"sum by (outcome) ({metric('rules')})", "{{outcome}}")],
    ).decimals(0)
    return [sources, found, duration, age.override_by_name("limit", [fixed(WARNING), dashed]), outcomes]


def variable(name: str, query: str) -> dashboard.QueryVariable:
    """Return a variable whose values are those of a label."""
    found = dashboard.QueryVariable(name).datasource(SOURCE).query({"query": query, "refId": name})
    return found.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def fleet_dashboard() -> dashboard.Dashboard:
    """Return the dashboard. A fleet has one instance, which changes when it restarts elsewhere: all are in it."""
    every = VariableOption(text=["All"], value=["$__all"], selected=True)
    instance = variable("instance", 'label_values(vllm_fleet_info{fleet="$fleet"}, instance)')
    instance = instance.hide(VariableHide.HIDE_VARIABLE).multi(True).include_all(True).current(every)
    built = dashboard.Dashboard("vLLM fleet").uid("vllm-fleet").tags(["vllm"]).refresh("1m").time("now-24h", "now")
    built = built.description("Configuration of the vLLM replicas of a fleet: drift, findings, capacity, collection.")
    built = built.timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    built = built.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    built = built.with_variable(variable("fleet", "label_values(vllm_fleet_info, fleet)").label("Fleet"))
    built = built.with_variable(instance)
    for title, panels in (("Summary", summary()), ("Pools", pools()), ("Collection", collection())):
        built = built.with_row(dashboard.Row(title))
        for panel in panels:
            built = built.with_panel(panel)
    return built


def dashboard_json() -> str:
    """Return the dashboard as JSON; panels are numbered in their order."""
    built = fleet_dashboard().build()
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    return json.dumps(built, cls=JSONEncoder, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(dashboard_json())
