"""ID-09 to ID-11 and ID-16: versions of packages, images of containers, digests on /metrics."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dashboard.compare.holders import Holders
from dashboard.fleet import State
from dashboard.fleet.formatting import count, joined
from dashboard.fleet.grouping import grouped
from dashboard.fleet.pieces import value
from dashboard.fleet.replies import address_of
from dashboard.rules.differences import majority, pair_differences, pool_differences, value_evidence
from dashboard.rules.domain import OFFLOADING
from dashboard.rules.findings import Draft, Remedy, Severity, Snippet, UnevaluatedReplicas
from dashboard.rules.identity.coverage import contradiction_evidence
from dashboard.rules.registry import Scope, rule
from dashboard.rules.sentences import MAX_VALUES, name_piece, sides_text, write
from dashboard.rules.subject import PairSubject, PoolSubject, group_by_native
from vllm_fleet_provider.shared.digests import DIGESTS, SERIES

LMCACHE, NIXL, MOONCAKE = "components.lmcache", "components.nixl", "components.mooncake"
COMPONENTS = (LMCACHE, NIXL, MOONCAKE)
# Parts of the names of the connectors that load a component. Tiers of the offloading connector and LMCache's peers
# transfer with NIXL (vllm/v1/kv_offload/tiering/p2p/data/nixl.py and tiering/obj/config.py).
LOADED_BY = {LMCACHE: ("LMCache",), NIXL: ("Nixl", "LMCache", OFFLOADING), MOONCAKE: ("Mooncake",)}
SAME_PACKAGES = (
    "Run one image in all of these replicas, or install one version of the package in it, and restart the changed ones."
)
# Labels of targets from Kubernetes (sources/kubernetes/pods.py). Labels are foreign text: anything else is left out.
_IMAGE = re.compile(r"image_([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)")
_DIGEST = re.compile(r"sha(?:256|512):[0-9a-f]{64,128}")
NO_IMAGES = "Only for targets from Kubernetes (labels image_CONTAINER)."
SHORT_DIGEST = len("sha256:") + 12  # characters, as container tools show it


@rule("ID-09", needs=COMPONENTS, needs_any=True)
def component_version_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool have different versions of LMCache, NIXL or Mooncake.

    Replicas where one is not installed are not compared. What no connector of the pool loads is info. The dashboard's
    provider reports the versions, from schema 1.3.
    """
    loaded = [path for path in COMPONENTS if _is_loaded(pool, path)]
    for paths, severity in ((loaded, None), (set(COMPONENTS) - set(loaded), Severity.INFO)):
        compared = {path: _installed(pool, path) for path in sorted(paths)}
        yield from _with_one_remedy(pool_differences(pool, compared, severity=severity))


@rule("ID-10", needs=COMPONENTS, needs_any=True, scope=Scope.PAIR)
def prefill_decode_component_version_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different versions of LMCache, NIXL or Mooncake.

    Compared is what a connector of either side loads. The dashboard's provider reports the versions, from schema 1.3.
    """
    loaded = [path for path in COMPONENTS if any(_is_loaded(side, path) for side in pair.subjects)]
    compared = {path: [_installed(side, path) for side in pair.subjects] for path in loaded}
    yield from _with_one_remedy(pair_differences(pair, compared))


def _is_loaded(pool: PoolSubject, path: str) -> bool:
    names = {each.name for found in pool.connectors.values() for each in found}
    return any(part in name for part in LOADED_BY[path] for name in names)


def _installed(pool: PoolSubject, path: str) -> Holders:
    """Return the versions of a component with their replicas, without those where it is not installed."""
    return {value: ids for value, ids in pool.values(path).items() if value.state is State.REPORTED}


def _with_one_remedy(drafts: Iterable[Draft]) -> Iterator[Draft]:
    return (replace(each, remedy=each.remedy._replace(sentence=SAME_PACKAGES)) for each in drafts)


@rule("ID-11")
def container_image_differs(pool: PoolSubject) -> Iterator[Draft | UnevaluatedReplicas]:
    """Containers of one name run different images in replicas of one vLLM version.

    The digests of targets from Kubernetes are compared (labels `image_CONTAINER`). Replicas of two vLLM versions are
    not: a rollout, or ID-08, explains their images.
    """
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    silent = {member.id for member in pool.members}
    names = set().union(*(member.labels for member in pool.members))
    containers = {label: match[1] for label in names if (match := _IMAGE.fullmatch(label))}
    for member in pool.members if containers else ():
        for label, digest in member.labels.items():
            if label in containers and _DIGEST.fullmatch(digest):
                found[containers[label], member.version or ""][member.id] = digest
                silent.discard(member.id)
    yield UnevaluatedReplicas(tuple(sorted(silent))) if found else UnevaluatedReplicas((), NO_IMAGES)
    for (container, _), digests in sorted(found.items()):
        if len(images := group_by_native(digests)) > 1 and not pool.is_ignored(f"labels.image_{container}"):
            yield _other_images(container, images, digests)


def _other_images(container: str, images: Holders, digests: dict[str, str]) -> Draft:
    """Return a container whose image differs, for the replicas without the majority's; without one, for all."""
    reference = majority(images)
    odd = tuple(sorted(each for image, ids in images.items() if image != reference for each in ids))
    known = {image: digests[ids[0]] for image, ids in images.items()}
    sides = sides_text((((value(known[image][:SHORT_DIGEST]),), len(ids)) for image, ids in images.items()), "image")
    wanted = [known[reference]] if reference else list(known.values())[:MAX_VALUES]
    return Draft(
        odd,
        write("Container ", name_piece(container), " runs different images: ", sides, "."),
        value_evidence(f"labels.image_{container}", images, reference),
        Remedy(
            "Name one image by its digest in the pod template, then restart these pods.",
            tuple(Snippet("yaml", f"- name: {container}\n  image: REPOSITORY@{each}") for each in wanted),
            any_of=len(wanted) > 1,
        ),
    )


@rule("ID-16", needs=("sources",), least=1)
def digest_without_answer(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas report a digest on `/metrics` that their answer does not have.

    Of replicas that Prometheus scrapes with equal digests of `vllm_fleet_config_info`, the dashboard asks one for its
    settings, and a sample of two others at each full poll. As long as a digest of one is wrong, each replica of its
    group is asked directly.
    """
    found = grouped(
        (each, member.id) for member in pool.members for each in member.contradictions if each.path.startswith(DIGESTS)
    )
    if not found:
        return
    names = joined(sorted({each.path.removeprefix(DIGESTS).partition("[")[0] for each in found}))
    replicas = tuple(sorted({replica for its in found.values() for replica in its}))
    address = json.dumps(address_of(replicas[0]), ensure_ascii=False)
    each = "its answer has" if len(replicas) == 1 else "their answers have"
    (_, own, reported), *more = sorted(found)
    values = (value(json.loads(reported.value)), f"; {each} ", value(json.loads(own.value)))
    yield Draft(
        replicas,
        write(
            value(SERIES), f" reports {names} ", *values, "." if not more else f" ({count(len(more), 'more pair')})."
        ),
        tuple(contradiction_evidence(dict(sorted(found.items())))),
        Remedy(
            "List the address of one server, no load balancer. Check relabelling rules. Then restart the replica.",
            (Snippet("yaml", f"targets:\n  - {address} # one server, no load balancer"),),
        ),
    )
