"""RT-10: topics of KV events that the router does not expect."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.fleet import Replica, SettingValue
from dashboard.fleet.formatting import LONG_TEXT
from dashboard.fleet.pieces import Text
from dashboard.rules import remedy
from dashboard.rules.differences import pool_differences
from dashboard.rules.domain import ImpactContext
from dashboard.rules.findings import Draft, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.router import expectation
from dashboard.rules.selection import evidence_of, publishing
from dashboard.rules.sentences import MAX_VALUES, name_piece, names_text, setting_piece, value_piece, write
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.identity import TOPIC

PATH = "kv_events_config.topic"
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
SERVED = "Set a topic with a served model name on these replicas and restart them."


@rule("RT-10", {ImpactContext.KV_EVENTS: Severity.CRITICAL}, needs=(PATH,), least=1)
def event_topic_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas publish KV events under topics of different form, or not in the router's form.

    The part that names the replica may differ. The router's form is `expects.event_topic` in fleet.yaml, such as
    `kv@{host}:{port}@{model}`.

    Why it matters:
        - kv-events: The router reads replica and model of an event from the topic. Events in another form are stored
          under a name that it never looks up.

    How to fix:
        Use one form of topic on all replicas: the address by which the router knows the replica, and a served model
        name.

    Exceptions:
        Routers that subscribe to each replica by its address may ignore the topic: disable the rule.

    Evidence:
        - vllm/config/kv_events.py (the topic is empty by default)
        - llm-d/llm-d#1008
        - llm-d/llm-d-inference-sim#624

    Example:
        The replicas send `kv@10.0.0.7@llama`, the form of an older guide. The router reads `kv@{host}:{port}@{model}`
        and stores all events under a replica `10.0.0.7` without a port, which serves nothing.
    """
    senders = publishing(pool)
    template = pool.domain.expects.event_topic
    if pool.is_ignored(PATH):
        return
    if template is not None:
        yield from _unlike_template(senders, template)
        return
    wrong = _of_unserved_model(senders)
    for topic, odd in _parts(senders, wrong):
        members = senders.only(odd).members
        fix = _topic_remedy(SERVED, [_form(json.loads(topic.value), members)], members)
        text = write(_is_topic(topic), ": this model is not served", _served(members), ".")
        yield Draft(odd, text, tuple(evidence_of(senders, [PATH], odd)), fix)
    rest = senders.without(wrong)
    yield from (_with_form(rest, draft) for draft in pool_differences(rest, [PATH]))


def _unlike_template(pool: PoolSubject, template: str) -> Iterator[Draft]:
    """Compare each replica's whole topic with the router's form; a draft per form that differs."""
    topics = pool.identity(PATH)
    wrong = {m.id for m in pool.members if m.id in topics and not _fits(topics[m.id], template, m)}
    for topic, odd in _parts(pool, wrong):
        members = pool.only(odd).members
        served = _served(members) if f"{{{MODEL}}}" in template else ()
        yield Draft(
            odd,
            write(_is_topic(topic), "; the router expects ", name_piece(template, LONG_TEXT), served, "."),
            (*evidence_of(pool, [PATH], odd), expectation(PATH, template)),
            _topic_remedy(ROUTERS_FORM, [template], members),
        )


def _parts(pool: PoolSubject, wrong: Collection[str]) -> Iterator[tuple[SettingValue, tuple[str, ...]]]:
    """Yield the topics of some replicas, each with those that have it."""
    for topic, replicas in pool.values(PATH).items():
        if odd := tuple(each for each in replicas if each in wrong):
            yield topic, odd


def _is_topic(topic: SettingValue) -> Text:
    return write(setting_piece(PATH), " is ", value_piece(topic))


def _fits(topic: object, template: str, replica: Replica) -> bool:
    """Tell whether a topic has the template's form, with a model that the replica serves."""
    patterns = [_pattern(template, re.escape(name)) for name in replica.served_model_names]
    return isinstance(topic, str) and any(
        re.fullmatch(pattern, topic) for pattern in patterns or [_pattern(template, PLACEHOLDERS[MODEL])]
    )


def _pattern(template: str, model: str) -> str:
    """Return a template as a regular expression. Odd pieces of the split are names of placeholders."""
    known = {**PLACEHOLDERS, MODEL: model}
    pieces = PLACEHOLDER.split(template)
    return "".join(known[piece] if index % 2 else re.escape(piece) for index, piece in enumerate(pieces))


def _of_unserved_model(pool: PoolSubject) -> set[str]:
    """Return the replicas whose topic names a model that they do not serve."""
    topics = pool.identity(PATH)
    found = set()
    for member in pool.members:
        topic = topics.get(member.id)
        match = TOPIC.match(topic) if isinstance(topic, str) else None
        if match and member.served_model_names and match["model"] not in member.served_model_names:
            found.add(member.id)
    return found


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


def _served(members: Sequence[Replica]) -> Text:
    """Return what these replicas serve, in brackets; empty where unknown."""
    names = list(dict.fromkeys(name for member in members for name in member.served_model_names))[:MAX_VALUES]
    return write(" (served: ", names_text(names), ")") if names else ()


def _topic_remedy(sentence: str, forms: Sequence[str], members: Sequence[Replica]) -> Remedy:
    """Return forms as flags: foreign names are quoted, addresses are variables."""
    common = [
        name for name in members[0].served_model_names if all(name in each.served_model_names for each in members)
    ]
    model = shlex.quote(next(iter(common), NO_MODEL))
    used = {name for form in forms for name in PLACEHOLDER.findall(form)}
    hints = [HINT_ADDRESS] if used & VARIABLES.keys() else []
    hints += [HINT_MODEL] if MODEL in used and not common else []
    flag = remedy.flag_of(PATH)
    snippets = tuple(Snippet("flag", f"{flag} {_filled(form, {**VARIABLES, MODEL: model})}") for form in forms)
    return Remedy(" ".join([sentence, *hints]), snippets)


def _filled(form: str, known: Mapping[str, str]) -> str:
    pieces = PLACEHOLDER.split(form)
    filled = (
        known[piece] if index % 2 else shlex.quote(piece) for index, piece in enumerate(pieces) if index % 2 or piece
    )
    return "".join(filled) or "''"
