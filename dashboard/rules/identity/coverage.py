"""ID-05 to ID-08: unread replicas, contradictions, duplicate processes and different versions."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.fleet import Contradiction, FailureKind, Replica, ReplicaState, SettingValue, Source, State
from dashboard.fleet.formatting import FAILURE_WORDS, SOURCE_WORDS, count, joined, middle_cut, one_line
from dashboard.fleet.history import Rollout
from dashboard.fleet.pieces import value
from dashboard.fleet.replies import address_of, reporter_of
from dashboard.rules import remedy
from dashboard.rules.differences import pool_differences
from dashboard.rules.findings import Draft, Evidence, Remedy, Severity, Snippet
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import setting_piece, value_piece, write
from dashboard.rules.subject import FleetSubject, PoolSubject, setting_value
from dashboard.vllm.versions import History, answer_at
from vllm_fleet_provider.shared.digests import DIGESTS

REASON = "replicas.reason"
MAX_ROWS = 20  # reasons in the evidence; the sentence counts all
MAX_KINDS = 3  # kinds of failure in a remedy
MAX_ADDRESSES = 3  # addresses in a remedy
ADDRESS_LENGTH = 80  # characters
NO_REPLY = "No probe gave a reply."
NOT_POLLED = "It was not asked again within three polls."  # ids depend on it
NO_ANSWER = "no answer"  # without a known failure
# What to do about a kind of failure at these addresses.
STEPS = {
    FailureKind.DNS: "Correct the name in {where}, or add it to DNS.",
    FailureKind.REFUSED: "Start vLLM at {where}, or remove it from the targets.",
    FailureKind.TIMEOUT: "Check whether vLLM at {where} hangs or is overloaded; if it is slow, raise the timeouts.",
    FailureKind.TLS: "Configure the CA of the certificate at {where}, or use http:// if there is none.",
    FailureKind.PROTOCOL: "Look for a proxy in front of {where}, and read vLLM's log there.",
    FailureKind.UNAUTHORIZED: "Set a valid API key for {where}. The reason says whether one is missing or refused.",
    FailureKind.STATUS: (
        "List vLLM's own address instead of a proxy at {where}. If vLLM itself answers, read its log."
    ),
    FailureKind.TOO_LARGE: "Raise the limits on answers if vLLM itself answers at {where}.",
    FailureKind.DECODE: "List vLLM's own address instead of a proxy at {where}.",
    FailureKind.SCHEMA: "Wait while vLLM starts at {where}; else check for a newer release of this program.",
    FailureKind.TARGET: "Write {where} as http://host:port.",
    FailureKind.FRONTEND: (
        "Start vLLM at {where} without VLLM_USE_RUST_FRONTEND, so that its Python API server loads the provider and "
        "serves vllm:cache_config_info. In development mode the frontend reports only its own options."
    ),
    FailureKind.NOT_VLLM: "Remove {where} from the targets: only vLLM servers are compared.",
    None: "Check whether the source with {where} is still read.",
}
# Below the target's own address, so that a key is sent to no other.
TARGET_OPTIONS = {
    FailureKind.UNAUTHORIZED: "credentials: {token_env: VLLM_API_KEY}",
    FailureKind.TLS: "credentials: {ca_file: secrets/ca.pem}",
}
OTHER_ADDRESS = (FailureKind.TARGET, FailureKind.DECODE, FailureKind.STATUS)
POLL_OPTIONS = {
    FailureKind.TIMEOUT: "poll:\n  probe_timeout_seconds: 10\n  replica_timeout_seconds: 30",
    FailureKind.TOO_LARGE: "poll:\n  max_answer_bytes: 33554432\n  max_headers: 256",
}
# Values of the evidence replicas.state: finding ids depend on them.
DOWN, PARTIAL, STALE = "did not answer", "answered only in part", "no answer for three polls"
NOT_VLLM = "not vLLM"
STATES = {
    DOWN: (Severity.WARNING, "unreachable"),
    PARTIAL: (Severity.INFO, "partially read"),
    STALE: (Severity.WARNING, "stale for three polls"),
    NOT_VLLM: (Severity.WARNING, NOT_VLLM),
}
# With the paths of sources whose name does not say where to look.
SOURCES = SOURCE_WORDS | {
    Source.PROVIDER: "the provider (/inference/v1/config)",
    Source.PLUGIN: "another plugin (below /plugins)",
}
VLLMS_OWN = (Source.PROVIDER, Source.SERVER_INFO, Source.METRICS)  # sources of vLLM's own count
TOKENS = "cache_config.kv_cache_size_tokens"
WHY_TOKENS = (
    "Capacity planning based on the larger number will overcommit KV cache. Requests queue or are computed again."
)
OWN_NUMBER = Remedy(
    "Update the plugin, or remove it from `VLLM_PLUGINS`, and restart these replicas. Do not use the plugin's number."
)
INSTANCE = "instance_id"
VERSION = "version"
# vllm/v1/metrics/loggers.py: the share of the KV cache in use has another name in the releases that were read.
OLD_METRIC, NEW_METRIC = "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"
METRICS: dict[str, History] = {
    OLD_METRIC: (((0, 9, 0), True), ((0, 10, 2), True), ((0, 11, 2), False)),  # 0.11: with hidden metrics only
    NEW_METRIC: (((0, 9, 1), False), ((0, 9, 2), True)),
}
EQUAL_HASHES = (
    "Defaults, formats and bugs change with every release, so equal command lines behave differently. Their engines "
    "computed equal block hashes."
)


@rule("ID-05", scope=Scope.FLEET, least=1)
def replicas_not_read(fleet: FleetSubject) -> Iterator[Draft]:
    """Replicas are unreachable, stale, partially read or not vLLM, so their configuration is unknown."""
    sizes = Counter(each.pool for each in fleet.all_replicas)
    unread: dict[tuple[str | None, str], list[Replica]] = defaultdict(list)
    for replica in fleet.all_replicas:
        if replica.failure and replica.failure.kind is FailureKind.NOT_VLLM:
            unread[replica.pool, NOT_VLLM].append(replica)
        elif replica.state is ReplicaState.DOWN:
            unread[replica.pool, DOWN].append(replica)
        elif not replica.fresh:
            unread[replica.pool, STALE].append(replica)
        elif replica.state is ReplicaState.PARTIAL:
            unread[replica.pool, PARTIAL].append(replica)
    for (pool, state), replicas in unread.items():
        yield _unread(
            replicas, state, f"{count(sizes[pool], 'replica')} {'of this pool' if pool else 'without a pool'}"
        )


def _unread(replicas: Sequence[Replica], state: str, whole: str) -> Draft:
    ids = tuple(each.id for each in replicas)
    failed: dict[FailureKind | None, list[str]] = defaultdict(list)
    details: dict[str, list[str]] = defaultdict(list)
    for replica in replicas:
        failure = replica.failure
        failed[failure.kind if failure else None].append(address_of(replica.id))
        details[failure.detail if failure else NOT_POLLED if state == STALE else NO_REPLY].append(replica.id)
    kinds = sorted(failed, key=lambda kind: (-len(failed[kind]), str(kind)))
    names = {kind: FAILURE_WORDS[kind] if kind else NO_ANSWER for kind in kinds}
    reasons = joined([names[k] if len(failed) == 1 else f"{names[k]} ({len(failed[k]):,})" for k in kinds])
    steps = " ".join(STEPS[kind].format(where=_addresses(failed[kind])) for kind in kinds[:MAX_KINDS])
    if clusters := sorted({each for each in map(reporter_of, ids) if each is not None}):
        steps += f" Set options in the fleet.yaml of the dashboard of {joined(clusters)}."
    paste = (text for kind in kinds[:MAX_KINDS] for text in _options(kind, failed[kind]))
    rows = [(json.dumps(detail, ensure_ascii=False), tuple(its)) for detail, its in details.items()]
    severity, name = STATES[state]
    name = name if state == NOT_VLLM else f"{name}: {reasons}"
    return Draft(
        ids,
        write(f"{len(replicas):,} of {whole} {'is' if len(replicas) == 1 else 'are'} {name}."),
        (
            Evidence("replicas.pool", *setting_value(replicas[0].pool), ids),
            Evidence("replicas.state", json.dumps(state), State.REPORTED, ids),
            *(Evidence(REASON, detail, State.REPORTED, its) for detail, its in rows[:MAX_ROWS]),
        ),
        Remedy(steps, tuple(Snippet("yaml", text) for text in paste)),
        severity=severity,
    )


def _addresses(addresses: Sequence[str]) -> str:
    """Return a few addresses by name, many by number."""
    if len(addresses) > MAX_ADDRESSES:
        return f"these {len(addresses):,} addresses"
    return joined([middle_cut(one_line(each), ADDRESS_LENGTH) for each in addresses])


def _options(kind: FailureKind | None, addresses: Sequence[str]) -> Iterator[str]:
    if kind in POLL_OPTIONS:
        yield POLL_OPTIONS[kind]
    if kind in TARGET_OPTIONS:
        entries = [f"  - url: {json.dumps(each)}\n    {TARGET_OPTIONS[kind]}" for each in addresses[:MAX_ADDRESSES]]
        more = [f"  # and so on for {len(addresses):,} targets"] if len(addresses) > MAX_ADDRESSES else []
        yield "\n".join(["targets:", *entries, *more])
    if kind in OTHER_ADDRESS:
        entries = [
            f"  - http://10.0.0.1:8000 # vLLM itself, for {json.dumps(each)}" for each in addresses[:MAX_ADDRESSES]
        ]
        yield "\n".join(["targets:", *entries])


@rule("ID-06", needs=("sources",), least=1)
def sources_contradict(pool: PoolSubject) -> Iterator[Draft]:
    """Two sources of one replica report different values of one setting.

    Only values with the same meaning in both sources are compared. For the number of tokens the right one is known:
    vLLM's own counts every KV cache group. A plugin that multiplies blocks by block size counts too much for a hybrid
    model.
    """
    found: dict[Contradiction, list[str]] = defaultdict(list)
    miscounted: dict[Contradiction, list[str]] = defaultdict(list)
    for member in pool.members:
        for contradiction in member.contradictions:
            path, kept, other = contradiction
            if path.startswith(DIGESTS):  # ID-16
                continue
            is_count = path == TOKENS and other.source is Source.PLUGIN and kept.source in VLLMS_OWN
            if not pool.is_ignored(path):
                (miscounted if is_count else found)[contradiction].append(member.id)
    for contradiction, replicas in found.items():
        yield _contradiction(contradiction, tuple(replicas))
    if miscounted:
        yield _miscounted(miscounted)


def _contradiction(contradiction: Contradiction, replicas: tuple[str, ...]) -> Draft:
    path, kept, other = contradiction
    sources = [SOURCES[each.source] for each in (kept, other)]
    target = json.dumps(address_of(replicas[0]), ensure_ascii=False)
    values = [value_piece(SettingValue(each.value, each.state), path) for each in (kept, other)]
    return Draft(
        replicas,
        write(setting_piece(path), " is ", values[0], f" in {sources[0]} and ", values[1], f" in {sources[1]}."),
        tuple(contradiction_evidence({contradiction: replicas})),
        Remedy(
            "If this address belongs to several servers, list the address of each. Otherwise restart the replica.",
            (Snippet("yaml", f"targets:\n  - {target} # one server, no load balancer"),),
        ),
    )


def _miscounted(found: Mapping[Contradiction, Sequence[str]]) -> Draft:
    """Draft all tokens that a plugin counts differently from vLLM as one finding."""
    pairs = Counter((each.kept.value, each.other.value) for each, replicas in found.items() for _ in replicas)
    (kept, other), _ = min(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    own = " or ".join(SOURCES[source] for source in VLLMS_OWN if any(each.kept.source is source for each in found))
    more = f" ({count(len(pairs) - 1, 'more pair')} of numbers)" if len(pairs) > 1 else ""
    right = "vLLM's number is right: it counts every KV cache group."
    values = (value(kept), f" in {own}, ", value(other), f" in {SOURCES[Source.PLUGIN]}{more}. ")
    return Draft(
        tuple(sorted(replica for replicas in found.values() for replica in replicas)),
        write(setting_piece(TOKENS), " is ", *values, right),
        tuple(contradiction_evidence(dict(sorted(found.items())))),
        OWN_NUMBER,
        why=WHY_TOKENS,
    )


def contradiction_evidence(found: Mapping[Contradiction, Sequence[str]]) -> Iterator[Evidence]:
    for (path, kept, other), replicas in found.items():
        for each in (kept, other):
            yield Evidence(path, each.value, each.state, tuple(replicas), each.source)


@rule("ID-07", needs=(INSTANCE,), scope=Scope.FLEET)
def process_listed_twice(fleet: FleetSubject) -> Iterator[Draft]:
    """One vLLM process has two addresses in the targets.

    Processes are identified by the instance id that each creates at start. Capacity is counted once.
    """
    fresh = {each.id: each for each in fleet.all_replicas if each.fresh}
    instances = fleet.identity(INSTANCE)
    for replica in fresh.values():
        others = [each for each in replica.same_process if each in fresh]
        if not others or min(others) < replica.id or replica.id not in instances:
            continue
        addresses = (replica.id, *sorted(others))
        keep = json.dumps(address_of(replica.id), ensure_ascii=False)
        yield Draft(
            addresses[1:],
            write(f"{len(addresses):,} addresses belong to one vLLM process."),
            (Evidence(INSTANCE, json.dumps(instances[replica.id]), State.REPORTED, addresses),),
            Remedy(
                "List the process once, by its pod or host address, and remove its other addresses.",
                (Snippet("yaml", f"targets:\n  - {keep}"),),
            ),
        )


@rule("ID-08", needs=(VERSION,))
def vllm_version_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run different vLLM versions.

    The whole version is compared: two nightly builds differ, as do a candidate and its release. Builds of one version
    for different platforms, such as 0.32.0 and 0.32.0+cpu, are info. Where one version recently replaced another on
    most replicas, a rollout is in progress. A metric that routers read and that only some of the versions export is
    named: the share of the KV cache in use was renamed.
    """
    drafts = list(pool_differences(pool, [VERSION]))
    if pool.rollout is not None and not pool.is_ignored(VERSION):
        drafts = [_in_progress(pool, pool.rollout)]
    hashes = pool.fingerprints()
    for draft in drafts:
        # A local part, such as +cpu, names the platform of a build.
        is_one_version = len({json.loads(each.value).partition("+")[0] for each in draft.evidence}) == 1
        concerned = {replica for each in draft.evidence for replica in each.replicas}
        hash_alike = concerned <= hashes.keys() and len({hashes[each] for each in concerned}) == 1
        versions = [json.loads(each.value) for each in draft.evidence]
        # Known to be on some of them, and known to be lacking on others.
        renamed = [n for n, known in METRICS.items() if {True, False} <= {answer_at(known, each) for each in versions}]
        names = write(*(piece for name in renamed for piece in (" Only some of them export ", value(name), ".")))
        yield replace(
            draft,
            text=write(draft.text, names),
            severity=Severity.INFO if is_one_version and pool.rollout is None else None,
            why=EQUAL_HASHES if hash_alike else None,
        )


def _in_progress(pool: PoolSubject, rollout: Rollout) -> Draft:
    old, new = (setting_value(version) for version in (rollout.old, rollout.new))
    holders = pool.values(VERSION)
    behind = holders.get(old, ())
    progress = f" ({len(rollout.replicas):,}/{rollout.total:,})."
    return Draft(
        behind,
        write("Rollout in progress: ", value(rollout.old), " -> ", value(rollout.new), progress),
        (Evidence(VERSION, *old, behind), Evidence(VERSION, *new, holders.get(new, ()), is_reference=True)),
        remedy.set_to([(VERSION, new)], "Wait for the rollout. If it stopped, give these replicas the new image."),
    )
