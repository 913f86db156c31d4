"""ID-09 to ID-11 and ID-16: versions of packages, images of containers, digests on /metrics."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dashboard.compare.holders import Holders
from dashboard.fleet import Contradiction, State
from dashboard.fleet.formatting import count, joined
from dashboard.fleet.pieces import value
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

    Why it matters:
        - any pool (info): Two versions of a package may behave differently although all settings are equal.
        - kv-store (warning): Keys, formats and messages changed between releases. Replicas with another version may
          find nothing in the store, and no error shows it.
        - disaggregated (warning): A peer with another version may refuse or misread what is transferred. Prompts are
          computed a second time.

    How to fix:
        Run one image in all replicas of the pool, or install one version of the package.

    Exceptions:
        A canary of a new version: suppress the finding for it until a date.

    Evidence:
        - LMCache/LMCache#1803
        - LMCache/LMCache#1842
        - vllm-project/production-stack#1060 (messages of LMCache changed between releases)
        - vllm-project/vllm#51777 (an image with another NIXL than it pins)

    Example:
        One replica was built a month later and has LMCache 0.3.7, the others 0.3.4. It stores its blocks and never hits
        theirs.
    """
    loaded = [path for path in COMPONENTS if _is_loaded(pool, path)]
    for paths, severity in ((loaded, None), (set(COMPONENTS) - set(loaded), Severity.INFO)):
        compared = {path: _installed(pool, path) for path in sorted(paths)}
        yield from _with_one_remedy(pool_differences(pool, compared, severity=severity))


@rule("ID-10", needs=COMPONENTS, needs_any=True, scope=Scope.PAIR)
def prefill_decode_component_version_differs(pair: PairSubject) -> Iterator[Draft]:
    """Prefill and decode have different versions of LMCache, NIXL or Mooncake.

    Compared is what a connector of either side loads. The dashboard's provider reports the versions, from schema 1.3.

    Why it matters:
        - disaggregated (warning): The handshake does not compare these versions. Where a release changed metadata or
          protocol, transfers fail or find nothing, and decode computes each prompt a second time.

    How to fix:
        Build the images of both pools with one version of the package, and roll them out together.

    Exceptions:
        Two versions that were tested with each other: suppress the finding.

    Evidence:
        - vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py (NIXL's own version is no factor of the hash)
        - vllm-project/vllm#35495 (connections that broke with a release of NIXL)
        - vllm-project/vllm#51777 (an image with another NIXL than it pins)
        - llm-d/llm-d-router#2133

    Example:
        Decode was rebuilt and got NIXL 1.5.1, prefill still has 1.3.2. vLLM's versions are equal, so the handshake
        passes.
    """
    loaded = [path for path in COMPONENTS if any(_is_loaded(side, path) for side in pair.sides)]
    compared = {path: [_installed(side, path) for side in pair.sides] for path in loaded}
    yield from _with_one_remedy(pair_differences(pair, compared))


def _is_loaded(pool: PoolSubject, path: str) -> bool:
    """Return whether a connector of any member loads a component."""
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

    Why it matters:
        - any pool (info): Pods of one template run different images, so equal settings do not mean equal behavior.
        - disaggregated (warning): Routing sidecar and engine have to fit each other. With a sidecar of another age KV
          cache is not transferred, and decode computes each prompt a second time.

    How to fix:
        Name the image by its digest in the pod template. A tag such as `latest` is another image after it was pushed
        again.

    Exceptions:
        While a new template with the same vLLM version is rolled out, the finding ends with the rollout. Nodes of two
        architectures may report two digests of one image: suppress the finding.

    Evidence:
        - llm-d/llm-d-router#2133
        - https://kubernetes.io/docs/concepts/containers/images/#image-names

    Example:
        A node was added, and its pod pulled a newer image of the sidecar under the tag `main`. Requests through it are
        never transferred.
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

    Why it matters:
        - any pool (warning): Settings of this replica would count for others with the digest, and theirs for it. What
          compares digests, such as an alert in Prometheus, compares something that the replica does not run.

    How to fix:
        Look for a proxy or a relabelling rule that gives the replica the series of another one, and for a second
        process behind its address. Otherwise restart the replica with the current provider.

    Exceptions:
        A replica that restarted between two answers: the finding ends with the next poll.

    Evidence:
        - https://prometheus.io/docs/prometheus/latest/configuration/configuration/#metric_relabel_configs (a rule that
          replaces labels of a series)
        - vllm/config/vllm.py (VllmConfig does not change while a server runs, so the digests of it do not, either)

    Example:
        A load balancer has one address for two servers. `/metrics` came from the one with block size 16, the answer of
        the provider from the one with 32.
    """
    found: dict[Contradiction, list[str]] = defaultdict(list)
    for member in pool.members:
        for contradiction in member.contradictions:
            if contradiction.path.startswith(DIGESTS):
                found[contradiction].append(member.id)
    if not found:
        return
    names = joined(sorted({each.path.removeprefix(DIGESTS).partition("[")[0] for each in found}))
    replicas = tuple(sorted({replica for its in found.values() for replica in its}))
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
            (
                Snippet(
                    "yaml",
                    f"targets:\n  - {json.dumps(replicas[0], ensure_ascii=False)} # one server, no load balancer",
                ),
            ),
        ),
    )
