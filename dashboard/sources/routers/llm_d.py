"""llm-d-router and its predecessors (endpoint pickers of the Gateway API Inference Extension).

Read in llm-d/llm-d-router at ebab687: pkg/epp/server/plugin_state_debug.go, apix/config/v1alpha1,
pkg/epp/framework/plugins/requestcontrol/dataproducer, pkg/kvcache, docs/metrics.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dashboard.errors import UnreadableError
from dashboard.fleet import FactName
from dashboard.rules.domain import Router
from dashboard.sources.routers.answers import FactValues, Process, RouterApi, is_count, read_samples, to_count
from dashboard.sources.source import mapping, mappings, read_yaml, text
from dashboard.vllm.reading import parse_json

STATE, METRICS = "/debug/plugins/state", "/metrics"
MAX_NODES = 50_000  # of JSON; a plugin lists 100 entries at most
PRECISE, APPROXIMATE = "precise-prefix-cache-producer", "approx-prefix-cache-producer"
PRECISE_SCORER = "precise-prefix-cache-scorer"  # deprecated: producer and scorer in one
SCORER = "prefix-cache-scorer"  # reads a producer; before 0.9 an approximate producer and scorer in one
PREFIX = "prefix"  # in the type of every plugin about prefixes, also of those that no value of `router` describes
# Defaults and limits (kvblock/token_processor.go, kvblock/in_memory.go, dataproducer/approximateprefix).
PRECISE_BLOCK, PODS_PER_KEY, LEAST_BLOCK, BLOCKS_PER_REPLICA = 16, 10, 64, 31_250
APPROXIMATE_BLOCK, EVENT_PORT, KEY_ALGORITHM = 16, 5557, "cbor-fnv"
UNBOUNDED = frozenset({"costAwareMemoryConfig", "redisConfig"})  # indexes that do not bound the entries of a key
OWN_INDEX = frozenset({"blockSize", "blockSizeTokens", "lruCapacityPerServer"})  # parameters of a scorer with an index
ENDPOINTS = ("llm_d_epp_per_endpoint_queue_size", "inference_pool_per_pod_queue_size")
ENDPOINT_LABELS = ("model_server_endpoint", "model_server_pod")
READY = ("llm_d_epp_ready_endpoints", "inference_pool_ready_pods")
INFO = ("llm_d_epp_info", "inference_extension_info")
CONFIG_KIND = "EndpointPickerConfig"
CONFIG_FILE, CONFIG_TEXT = "config-file", "config-text"  # flags


def read_state(body: bytes) -> FactValues:
    """Read /debug/plugins/state, of 0.10 and later; 0.9 names the plugins without their state."""
    answer = parse_json(body, MAX_NODES)
    plugins = answer.get("plugins") if isinstance(answer, dict) else None
    if not isinstance(plugins, dict):
        raise UnreadableError("schema", f"answers {STATE} with JSON that has no plugins")
    states = {text(mapping(plugins, name), "type"): mapping(mapping(plugins, name), "state") for name in plugins}
    found: dict[FactName, Any] = {}
    if routing := _routing_of(states):
        found[FactName.ROUTING] = routing
    precise = states.get(PRECISE, {})
    if is_count(size := precise.get("blockSizeTokens")):
        found |= {FactName.BLOCK_SIZE: size, FactName.OWN_KEYS: True}
    if isinstance(names := precise.get("subscribers"), list):
        found[FactName.SUBSCRIBERS] = [each for each in names if isinstance(each, str)]
        total = precise.get("totalSubscribers")
        found[FactName.SUBSCRIBED] = total if is_count(total) else len(names)
    return found


def _routing_of(types: Iterable[str]) -> Router | None:
    """Return how requests are routed by the types of all plugins; None where both producers are there.

    Each scorer of prefixes has a producer in this list, an approximate one where the configuration names none.
    """
    known = set(types)
    producers = known & {PRECISE, APPROXIMATE, PRECISE_SCORER}
    if not known or producers >= {PRECISE, APPROXIMATE}:
        return None
    if not producers:
        return None if any(PREFIX in each for each in known) else Router.NONE
    return Router.APPROXIMATE if producers == {APPROXIMATE} else Router.KV_EVENTS


def read_metrics(body: bytes) -> FactValues:
    """Read /metrics: the replicas that it knows, and its version."""
    endpoints: set[str] = set()
    found: dict[FactName, Any] = {}
    for name, labels, value in read_samples(body, {*ENDPOINTS, *READY, *INFO}):
        if name in READY:
            found[FactName.READY] = int(value) if 0 <= value < 2**31 else 0
        elif name in INFO:
            found |= {FactName.VERSION: said} if (said := labels.get("build_ref")) else {}
        else:
            endpoints |= {labels[each] for each in ENDPOINT_LABELS if each in labels}
    return found | ({FactName.ENDPOINTS: sorted(endpoints)} if endpoints else {})


def read_config(raw: bytes) -> FactValues:
    """Read an EndpointPickerConfig as the router does: which producer its scorers use, with what parameters."""
    whole = read_yaml(raw)
    if not isinstance(whole, dict) or whole.get("kind") != CONFIG_KIND:
        raise UnreadableError("schema", f"has no {CONFIG_KIND}")
    plugins = {text(each, "name") or text(each, "type"): each for each in mappings(whole, "plugins")}
    used = {
        text(each, "pluginRef") for one in mappings(whole, "schedulingProfiles") for each in mappings(one, "plugins")
    }
    scorers = [each for name, each in plugins.items() if name in used or not used]
    producers = [each for scorer in scorers for each in _producers(scorer, plugins)]
    precise = next((each for each in producers if text(each, "type") in {PRECISE, PRECISE_SCORER}), None)
    if precise is not None:
        return _precise(mapping(precise, "parameters"))
    known = next((each for each in producers if text(each, "type") in {APPROXIMATE, SCORER}), None)
    if known is not None:
        return _approximate(mapping(known, "parameters"), is_scorer=text(known, "type") == SCORER)
    return {} if any(PREFIX in text(each, "type") for each in scorers) else {FactName.ROUTING: Router.NONE}


def _producers(scorer: Mapping[str, Any], plugins: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the plugin that a scorer of prefixes reads; by default it is an approximate one, configured or not."""
    kind, parameters = text(scorer, "type"), mapping(scorer, "parameters")
    if kind == PRECISE_SCORER or (kind == SCORER and not OWN_INDEX.isdisjoint(parameters)):
        yield scorer
    elif kind == SCORER:
        named = plugins.get(text(parameters, "prefixMatchInfoProducerName"))
        default = next((each for each in plugins.values() if text(each, "type") == APPROXIMATE), {"type": APPROXIMATE})
        yield named or default


def _precise(parameters: Mapping[str, Any]) -> FactValues:
    tokens = mapping(parameters, "tokenProcessorConfig")
    index = mapping(mapping(parameters, "indexerConfig"), "kvBlockIndexConfig")
    sizes = (to_count(tokens.get(name)) for name in ("blockSizeTokens", "blockSize"))
    found: dict[FactName, Any] = {
        FactName.ROUTING: Router.KV_EVENTS,
        FactName.BLOCK_SIZE: next(filter(None, sizes), PRECISE_BLOCK),
        FactName.OWN_KEYS: True,
        FactName.KEY_ALGORITHM: text(tokens, "hashAlgorithm") or KEY_ALGORITHM,
        FactName.KEY_SEED: text(tokens, "hashSeed"),
    }
    events = mapping(parameters, "kvEventsConfig")
    if not text(events, "zmqEndpoint"):  # else replicas connect to the router
        port = to_count(mapping(events, "podDiscoveryConfig").get("socketPort"))
        found[FactName.EVENT_PORT] = port or EVENT_PORT
    if UNBOUNDED.isdisjoint(index):
        most = to_count(mapping(index, "inMemoryConfig").get("podCacheSize"))
        found[FactName.PODS_PER_KEY] = most or PODS_PER_KEY
    return found


def _approximate(parameters: Mapping[str, Any], *, is_scorer: bool) -> FactValues:
    """Read an approximate producer; the scorer of earlier versions measures blocks in characters."""
    found: dict[FactName, Any] = {FactName.ROUTING: Router.APPROXIMATE}
    most = to_count(parameters.get("lruCapacityPerServer")) or BLOCKS_PER_REPLICA
    if is_scorer:
        return {**found, FactName.BLOCKS_PER_REPLICA: most}
    if text(parameters, "autoTune").lower() != "false":  # block size and capacity of the first endpoint
        return {**found, FactName.LEAST_BLOCK_SIZE: LEAST_BLOCK}
    size = to_count(parameters.get("blockSizeTokens")) or APPROXIMATE_BLOCK
    if size == APPROXIMATE_BLOCK:  # as if it were not set
        size = to_count(parameters.get("blockSize")) or size
    return {**found, FactName.BLOCK_SIZE: max(size, LEAST_BLOCK), FactName.BLOCKS_PER_REPLICA: most}


def read_process(process: Process) -> FactValues:
    """Read the configuration that is written into the command line."""
    written = process.option(CONFIG_TEXT)
    return read_config(written.encode()) if written else {}


LLM_D = RouterApi(9090, {STATE: read_state, METRICS: read_metrics}, read_process)
