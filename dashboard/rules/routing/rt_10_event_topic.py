"""RT-10: KV events are sent under a topic that the router does not look for."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dashboard.fleet import Replica
from dashboard.fleet.formatting import LONG_TEXT, joined, middle_cut, one_line
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import MOST_SIDES, drift, say
from dashboard.rules.findings import Draft, Family, Remedy, Severity, Snippet
from dashboard.rules.registry import rule
from dashboard.rules.routing.narrowing import only, publishing, shown
from dashboard.rules.routing.router import expectation
from dashboard.rules.subject import PoolSubject
from dashboard.vllm.identity import TOPIC

PATH = "kv_events_config.topic"
NOUN = "topic of KV events"
MODEL = "model"
# What a placeholder of the template stands for. None of them can match what another one takes.
PLACEHOLDERS = {"host": r"(?:\[[^\]@]*\]|[^@:\[\]]+)", "port": r"\d+", MODEL: r".+"}
VARIABLES = {"host": '"$POD_IP"', "port": '"$PORT"'}  # to paste: as Kubernetes' downward API is often named
NO_MODEL = "MODEL"  # to paste where these replicas have no name in common
HINT_ADDRESS = "`$POD_IP` and `$PORT` stand for a replica's address as the router knows it."
HINT_MODEL = f"`{NO_MODEL}` stands for a name that the replica serves."
ROUTERS_FORM = "Give these replicas a topic in the form that the router reads, and restart them."
POOLS_FORM = "Give these replicas a topic in the form that the rest of the pool has, and restart them."
ONE_FORM = "Choose one form of topic for the pool, the one that the router reads, and restart the others."
SERVED = "Give these replicas a topic with a model that they serve, and restart them."
PLACEHOLDER = re.compile(r"\{(host|port|model)\}")


@rule(
    id="RT-10",
    name="event-topic-differs",
    family=Family.ROUTING,
    severity={ImpactContext.KV_EVENTS: Severity.CRITICAL},
    needs=(PATH,),
    least=1,
)
def event_topic_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas send KV events under topics of different form, or under one that the router does not look for.

    The part that names the replica may differ. The router's form is `expects.event_topic` in fleet.yaml, such as
    `kv@{host}:{port}@{model}`.

    Why it matters:
        - kv-events: The router takes from the topic which replica and which model an event is about. Events under
          another form are filed under a replica or a model that it never looks up, and so are lost.

    How to fix:
        Give all replicas one form of topic: the address by which the router knows the replica, and a model name that is
        served.

    Exceptions:
        Routers that subscribe to each replica by its own address may not read the topic at all: disable the rule.

    Evidence:
        - vllm/config/kv_events.py (the topic is empty by default)
        - llm-d/llm-d#1008
        - llm-d/llm-d-inference-sim#624

    Example:
        The replicas send `kv@10.0.0.7@llama`, the form of an older guide; the router reads `kv@{host}:{port}@{model}`
        and files all events under a replica named `10.0.0.7` without a port, which serves nothing.
    """
    senders = publishing(pool)
    template = pool.domain.expects.event_topic
    if pool.is_ignored(PATH):
        return
    if template is not None:
        yield from _unlike_template(senders, template)
        return
    strangers = _of_a_model_not_served(senders)
    yield from _stranger_drafts(senders, strangers)
    rest = only(senders, {each.id for each in senders.members} - strangers)
    yield from (_filled_in(rest, draft) for draft in drift(rest, {PATH: NOUN}))


def _unlike_template(pool: PoolSubject, template: str) -> Iterator[Draft]:
    """Hold each replica's whole topic against the router's form; a draft per form that does not fit."""
    topics = pool.identity(PATH)
    members = {each.id: each for each in pool.members}
    for told, replicas in pool.values(PATH).items():
        odd = tuple(each for each in replicas if each in topics and not _fits(topics[each], template, members[each]))
        if odd:
            named = _names_of(pool, odd) if f"{{{MODEL}}}" in template else ""
            yield Draft(
                odd,
                f"The {NOUN} is {say(told)}; the router expects {_quoted(template)}{named}.",
                (*shown(pool, PATH, odd), expectation(PATH, template)),
                _remedy(ROUTERS_FORM, [template], [members[each] for each in odd]),
            )


def _fits(topic: object, template: str, replica: Replica) -> bool:
    """Tell whether a topic has the template's form, and names a model that the replica serves where it names one."""
    patterns = [_pattern(template, re.escape(name)) for name in replica.served_model_names]
    return isinstance(topic, str) and any(
        re.fullmatch(pattern, topic) for pattern in patterns or [_pattern(template, PLACEHOLDERS[MODEL])]
    )


def _pattern(template: str, model: str) -> str:
    """Make a regular expression of a template. Odd pieces of the split are names of placeholders."""
    known = {**PLACEHOLDERS, MODEL: model}
    pieces = PLACEHOLDER.split(template)
    return "".join(known[piece] if index % 2 else re.escape(piece) for index, piece in enumerate(pieces))


def _of_a_model_not_served(pool: PoolSubject) -> set[str]:
    """Return the replicas whose topic names a model, and one that they do not serve."""
    topics = pool.identity(PATH)
    found = set()
    for member in pool.members:
        topic = topics.get(member.id)
        match = TOPIC.match(topic) if isinstance(topic, str) else None
        if match and member.served_model_names and match["model"] not in member.served_model_names:
            found.add(member.id)
    return found


def _stranger_drafts(pool: PoolSubject, strangers: set[str]) -> Iterator[Draft]:
    for told, replicas in pool.values(PATH).items():
        odd = tuple(each for each in replicas if each in strangers)
        if odd:
            sentence = f"The {NOUN} is {say(told)}, which names a model that is not served{_names_of(pool, odd)}."
            members = only(pool, odd).members
            fix = _remedy(SERVED, [_form(json.loads(told.value), members)], members)
            yield Draft(odd, sentence, tuple(shown(pool, PATH, odd)), fix)


def _filled_in(pool: PoolSubject, draft: Draft) -> Draft:
    """Give a difference between replicas something that can be pasted: a value has its replica set apart."""
    is_choice = draft.remedy.any_of
    members = only(pool, draft.replicas).members
    held = (json.loads(each.value) for each in draft.evidence if each.is_reference or is_choice)
    forms = dict.fromkeys(_form(topic, members) for topic in held if isinstance(topic, str))
    sentence = ONE_FORM if is_choice else POOLS_FORM
    return replace(draft, remedy=_remedy(sentence, list(forms)[:MOST_SIDES], members)._replace(any_of=is_choice))


def _form(topic: str, members: Sequence[Replica]) -> str:
    """Make a template of a topic as it is compared. Its model stays where none of these replicas lacks it."""
    match = TOPIC.match(topic)
    if match is None:
        return topic
    is_served = all(match["model"] in each.served_model_names for each in members if each.served_model_names)
    model = match["model"] if is_served else f"{{{MODEL}}}"
    return f"{match['kind']}@{match['pod'].replace('{pod}', '{host}')}@{model}"


def _names_of(pool: PoolSubject, replicas: tuple[str, ...]) -> str:
    """Say what these replicas serve; nothing where that is not known."""
    members = only(pool, replicas).members
    names = list(dict.fromkeys(name for member in members for name in member.served_model_names))
    return f" (served: {joined([_quoted(each) for each in names[:MOST_SIDES]])})" if names else ""


def _quoted(text: str) -> str:
    return middle_cut(one_line(text), LONG_TEXT)


def _remedy(sentence: str, forms: Sequence[str], members: Sequence[Replica]) -> Remedy:
    """Fill forms in for a shell: foreign names are quoted, the address is left to variables."""
    common = [
        name for name in members[0].served_model_names if all(name in each.served_model_names for each in members)
    ]
    model = shlex.quote(next(iter(common), NO_MODEL))
    used = {name for form in forms for name in PLACEHOLDER.findall(form)}
    hints = [HINT_ADDRESS] if used & VARIABLES.keys() else []
    hints += [HINT_MODEL] if MODEL in used and not common else []
    flag = remedy.flag_of(PATH)
    snippets = tuple(Snippet("flag", f"{flag} {_topic(form, {**VARIABLES, MODEL: model})}") for form in forms)
    return Remedy(" ".join([sentence, *hints]), snippets)


def _topic(form: str, known: Mapping[str, str]) -> str:
    pieces = PLACEHOLDER.split(form)
    filled = (
        known[piece] if index % 2 else shlex.quote(piece) for index, piece in enumerate(pieces) if index % 2 or piece
    )
    return "".join(filled) or "''"
