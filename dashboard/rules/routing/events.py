"""RT-08 to RT-11 and RT-23: format, publishing, topics, endpoints and replay of KV events."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from dashboard.compare.holders import Holders, group_by_value
from dashboard.fleet import Replica, Setting, SettingValue, Source, State
from dashboard.fleet.formatting import LONG_TEXT, count
from dashboard.rules import remedy
from dashboard.rules.differences import pool_differences
from dashboard.rules.domain import CERTAIN, EVENTS, PUBLISHER, Router
from dashboard.rules.findings import Confidence, Draft, Evidence, Remedy, Snippet, UnevaluatedReplicas, Way, expectation
from dashboard.rules.identity.addresses import DP_RANK, ENDPOINT, REPLAY
from dashboard.rules.registry import rule
from dashboard.rules.sentences import (
    MAX_VALUES,
    name_piece,
    names_text,
    setting_piece,
    to_text,
    value_piece,
    values_text,
    write,
)
from dashboard.rules.subject import NO, YES, PoolSubject, publication
from dashboard.vllm.versions import VERSION, reports_change
from vllm_fleet_provider.shared.identity import EVENT_TOPIC, NO_PORT, TOPIC
from vllm_fleet_provider.shared.spelling import canonical_text

# vllm-project/vllm#42892 was merged after 0.23.0 was cut (ai-dynamo/dynamo#10660 read both) and is in 0.24.0
# (verl-project/uni-agent#216 ran it).
MAPS_SINCE = (0, 24, 0)
ZMQ = SettingValue('"zmq"', State.REPORTED)
PORT = re.compile(r":(\d+)$")
WILDCARD = "*"
MODEL = "model"
# The placeholders of a template: none matches the text of another.
PLACEHOLDERS = {"host": r"(?:\[[^\]@]*\]|[^@:\[\]]+)", "port": r"\d+", MODEL: r".+"}
PLACEHOLDER = re.compile(r"\{(host|port|model)\}")
VARIABLES = {"host": '"$POD_IP"', "port": '"$PORT"'}  # to paste: usual names with Kubernetes' downward API
NO_MODEL = "MODEL"  # to paste where these replicas have no served name in common
HINT_ADDRESS = "`$POD_IP` and `$PORT` are the replica's address as the router knows it."
HINT_MODEL = f"`{NO_MODEL}` is a name that the replica serves."
ROUTERS_FORM = "Set a topic in the router's form on these replicas and restart them."
POOLS_FORM = "Set a topic in the form of the rest of the pool on these replicas and restart them."
ONE_FORM = "Choose one form of topic for the pool, the one that the router reads, and restart the other replicas."
REPLAY_FLAG = "--kv-events-config.replay_endpoint 'tcp://*:5558'"
SERVED = "Set a topic with a served model name on these replicas and restart them."


@rule("RT-08", needs=(VERSION,))
def event_format_differs(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Replicas of one pool run vLLM versions with different KV event formats.

    Until 0.23 vLLM sent each event as an array, since 0.24 as a map with named fields. The format of a build between
    the two, such as 0.24.0rc1, is unknown: such a replica is counted as unknown.
    """
    senders = _possible_senders(pool)
    formats = senders.values(VERSION, _sends_maps)
    maps, replicas = formats.get(YES, ()), formats.get(NO, ())
    if pool.is_ignored(VERSION):
        return
    unknown = sorted({each.id for each in senders.members}.difference(maps, replicas))
    if unknown:
        is_known = len(unknown) < len(senders.members)
        yield UnevaluatedReplicas(
            tuple(unknown), "" if is_known else "The event format of these vLLM versions is unknown."
        )
    if not (maps and replicas):
        return
    is_published = {member.id for member in senders.members}.issubset(pool.values(EVENTS, publication).get(YES, ()))
    versions = values_text(senders.only(replicas).values(VERSION), last=" and ")
    changed = ".".join(map(str, MAPS_SINCE))
    newer = senders.only(maps).most_used_version
    yield Draft(
        replicas,
        write(
            *("vLLM ", versions, " sends KV events as arrays; "),
            f"{count(len(maps), 'other replica')} use maps, the format since {changed}.",
        ),
        senders.evidence([VERSION], replicas, maps),
        remedy.set_to(
            [(VERSION, newer)],
            f"Update these replicas to vLLM {to_text(newer)} like the others (ID-08), or make the router's reader of "
            "events support both formats.",
        ),
        Confidence.DERIVED,
        assumptions=() if is_published else ("all replicas publish KV events",),
    )


def _possible_senders(pool: PoolSubject) -> PoolSubject:
    """Return the publishing replicas; where the router is known to read them, all except those that report not to."""
    known = pool.values(EVENTS, publication)
    if pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis in CERTAIN:
        return pool.without(known.get(NO, ()))
    return pool.only(known.get(YES, ()))


def _sends_maps(version: SettingValue, settings: Mapping[str, Setting]) -> SettingValue:
    """Return whether a version sends maps; itself where that is unknown."""
    has_maps = reports_change(settings, MAPS_SINCE)
    return version if has_maps is None else YES if has_maps else NO


@rule("RT-09", needs=(EVENTS,), least=1)
def events_not_published(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish no KV events while others do, or while the router reads them.

    Publishing needs `enable_kv_cache_events` and a publisher other than `null`. A replica that answers `{}` at
    `/kv_event_sources` publishes nothing.
    """
    known = pool.values(EVENTS, publication)
    on, off = known.get(YES, ()), known.get(NO, ())
    is_read = pool.domain.router is Router.KV_EVENTS and pool.domain.router_basis in CERTAIN
    if not off or not (on or is_read) or pool.is_ignored(EVENTS):
        return
    topics = [each for each in pool.only(on).values(EVENT_TOPIC) if each.state is State.REPORTED]
    topic = [(EVENT_TOPIC, topics[0])] if len(topics) == 1 and "{" not in topics[0].value else []
    others = f"; {len(on):,} of {len(on) + len(off):,} replicas publish them."
    by_none = " by any replica that reports it; the router reads them."
    yield Draft(
        off,
        write("KV events are not published", others if on else by_none),
        (*pool.evidence((EVENTS, PUBLISHER), off), *pool.evidence([EVENTS], (), on)),
        remedy.set_to(
            [(EVENTS, YES), (PUBLISHER, ZMQ), *topic], "Enable KV events on these replicas and restart them."
        ),
    )


@rule("RT-10", needs=(EVENT_TOPIC,), least=1)
def event_topic_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish KV events under topics of different form, or not in the router's form.

    The part that names the replica may differ. The router's form is `expects.event_topic` in fleet.yaml, such as
    `kv@{host}:{port}@{model}`.
    """
    senders, template = pool.publishing, pool.domain.expects.event_topic
    if pool.is_ignored(EVENT_TOPIC):
        return
    topics = senders.identity(EVENT_TOPIC)
    wrong = {
        each.id for each in senders.members if each.id in topics and not _is_right(topics[each.id], template, each)
    }
    for topic, replicas in senders.values(EVENT_TOPIC).items():
        if odd := wrong.intersection(replicas):
            yield _wrong_topic(senders.only(odd), topic, template)
    if template is None:
        rest = senders.without(wrong)
        yield from (_with_form(rest, draft) for draft in pool_differences(rest, [EVENT_TOPIC]))


def _is_right(topic: object, template: str | None, replica: Replica) -> bool:
    """Return whether a topic has the template's form, with a model that the replica serves.

    Without a template only the model of a topic in vLLM's usual form is compared.
    """
    served = replica.served_model_names
    if template is None:
        match = TOPIC.match(topic) if isinstance(topic, str) else None
        return match is None or not served or match["model"] in served
    models = [re.escape(name) for name in served] or [PLACEHOLDERS[MODEL]]
    patterns = (_filled(template, {**PLACEHOLDERS, MODEL: model}, re.escape) for model in models)
    return isinstance(topic, str) and any(re.fullmatch(pattern, topic) for pattern in patterns)


def _wrong_topic(odd: PoolSubject, topic: SettingValue, template: str | None) -> Draft:
    """Return the replicas with one topic that does not have the router's form, or names a model not served."""
    members = odd.members
    names = list(dict.fromkeys(name for member in members for name in member.served_model_names))[:MAX_VALUES]
    served = write(" (served: ", names_text(names), ")") if names else ()
    rows = odd.evidence([EVENT_TOPIC])
    if template is None:
        fix = _topic_remedy(SERVED, [_form(json.loads(topic.value), members)], members)
        text = write(": this model is not served", served, ".")
    else:
        rows, fix = (*rows, expectation(EVENT_TOPIC, template)), _topic_remedy(ROUTERS_FORM, [template], members)
        named = served if f"{{{MODEL}}}" in template else ()
        text = write("; the router expects ", name_piece(template, LONG_TEXT), named, ".")
    replicas = tuple(each.id for each in members)
    return Draft(replicas, write(setting_piece(EVENT_TOPIC), " is ", value_piece(topic), text), rows, fix)


def _with_form(pool: PoolSubject, draft: Draft) -> Draft:
    """Return a difference with topics to paste: a compared value has no replica part."""
    is_choice = draft.remedy.any_of
    members = pool.only(draft.replicas).members
    topics = (json.loads(each.value) for each in draft.evidence if each.is_reference or is_choice)
    forms = dict.fromkeys(_form(topic, members) for topic in topics if isinstance(topic, str))
    sentence = ONE_FORM if is_choice else POOLS_FORM
    return replace(draft, remedy=_topic_remedy(sentence, list(forms)[:MAX_VALUES], members)._replace(any_of=is_choice))


def _form(topic: str, members: Sequence[Replica]) -> str:
    """Return a compared topic as a template. Its model stays where all of these replicas serve it."""
    match = TOPIC.match(topic)
    if match is None:
        return topic
    is_served = all(match["model"] in each.served_model_names for each in members if each.served_model_names)
    model = match["model"] if is_served else f"{{{MODEL}}}"
    return f"{match['kind']}@{match['pod'].replace('{pod}', '{host}')}@{model}"


def _topic_remedy(sentence: str, forms: Sequence[str], members: Sequence[Replica]) -> Remedy:
    """Return forms as flags: foreign names are quoted, addresses are variables."""
    names = members[0].served_model_names
    common = next((name for name in names if all(name in each.served_model_names for each in members)), None)
    used = {name for form in forms for name in PLACEHOLDER.findall(form)}
    hints = [HINT_ADDRESS] if used & VARIABLES.keys() else []
    hints += [HINT_MODEL] if MODEL in used and common is None else []
    known = {**VARIABLES, MODEL: shlex.quote(common or NO_MODEL)}
    filled = (_filled(form, known, shlex.quote) or "''" for form in forms)
    snippets = tuple(Snippet("flag", f"{remedy.flag_of(EVENT_TOPIC)} {topic}") for topic in filled)
    return Remedy(" ".join([sentence, *hints]), snippets)


def _filled(form: str, known: Mapping[str, str], escape: Callable[[str], str]) -> str:
    """Fill in the placeholders of a form and escape the rest. Odd pieces of the split are names of placeholders."""
    pieces = enumerate(PLACEHOLDER.split(form))
    return "".join(known[piece] if index % 2 else piece and escape(piece) for index, piece in pieces)


@rule("RT-11", needs=(ENDPOINT,))
def event_endpoint_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool publish KV events at different kinds of endpoints.

    With `*`, such as `tcp://*:5557`, the replica binds the endpoint and the router connects. Any other endpoint is the
    router's, and the replica connects. Hosts may differ. Ports are compared only where each replica has its own host
    and all have one data-parallel rank, because vLLM adds the rank to the port.
    """
    senders = pool.publishing
    senders = senders.only({each.id for each in senders.members if _is_configured(pool.settings(each).get(ENDPOINT))})
    for draft in pool_differences(senders, {path: _endpoints(senders, path) for path in (ENDPOINT, REPLAY)}):
        yield replace(draft, remedy=_endpoint_remedy(senders, draft))


def _is_configured(endpoint: Setting | None) -> bool:
    """Return whether an endpoint is configured: one in `/kv_event_sources` may be chosen by the system."""
    return endpoint is not None and (endpoint.source is not Source.KV_EVENT_SOURCES or WILDCARD in endpoint.value)


def _has_one_port(pool: PoolSubject) -> bool:
    """Return whether one port is expected: one replica per host, all of one rank, known and configured endpoints."""
    hosts = {urlsplit(member.id).hostname for member in pool.members}
    ranks = {json.dumps(rank) for rank in pool.identity(DP_RANK).values()}
    bound = any(pool.settings(member)[ENDPOINT].source is Source.KV_EVENT_SOURCES for member in pool.members)
    is_known = len(pool.identity(ENDPOINT)) == len(pool.members)  # not copied from a replica with equal digests
    return len(hosts) == len(pool.members) and len(ranks) <= 1 and not bound and is_known


def _endpoints(pool: PoolSubject, path: str) -> Holders:
    """Return what is compared of an endpoint: its kind, and its port where one is expected."""
    whole = pool.identity(path) if _has_one_port(pool) else {}
    found: dict[str, SettingValue] = {}
    for value, replicas in pool.values(path).items():
        for replica in replicas:
            port = PORT.search(address) if isinstance(address := whole.get(replica), str) else None
            found[replica] = value._replace(value=value.value.replace(f":{NO_PORT}", port[0])) if port else value
    return group_by_value(found)


def _endpoint_remedy(pool: PoolSubject, draft: Draft) -> Remedy:
    """Return a draft's remedy with whole endpoints; none where each replica has its own, or only the kind counts."""
    is_choice = draft.remedy.any_of
    rows = [each for each in draft.evidence if each.is_reference or is_choice]
    whole = [(each.path, value) for each in rows if (value := _whole_endpoint(pool, each)) is not None]
    if not is_choice:
        return remedy.set_to(whole, draft.remedy.sentence)
    return remedy.one_of([Way((each,)) for each in whole[:MAX_VALUES]], draft.remedy.sentence)


def _whole_endpoint(pool: PoolSubject, row: Evidence) -> SettingValue | None:
    """Return the whole endpoint of the replicas of one row of evidence, which has no host."""
    known = pool.identity(row.path)
    if NO_PORT in row.value or not all(each in known for each in row.replicas):
        return None
    found = {canonical_text(known[each]) for each in row.replicas}
    return SettingValue(found.pop(), row.state) if len(found) == 1 else None


@rule("RT-23", needs=(EVENTS, REPLAY), least=1)
def kv_events_cannot_be_replayed(pool: PoolSubject) -> Iterator[Draft]:
    """No replica of the pool has a replay endpoint for its KV events.

    Where only some have one, RT-11 reports the difference.
    """
    senders = pool.publishing
    replays = senders.values(REPLAY)
    replicas = tuple(sorted(each.id for each in senders.members))
    if not replicas or pool.is_ignored(REPLAY) or {each.state for each in replays} != {State.NULL}:
        return
    if sum(map(len, replays.values())) == len(replicas):
        yield Draft(
            replicas,
            write(setting_piece(REPLAY), " is unset on all replicas that publish KV events."),
            senders.evidence((REPLAY,)),
            Remedy(
                "Set a replay endpoint on every replica and its port in the router's configuration, then restart them.",
                (Snippet("flag", REPLAY_FLAG),),
            ),
        )
