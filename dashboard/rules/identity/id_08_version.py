"""ID-08: replicas of one pool run different versions of vLLM."""

import json
from collections.abc import Iterator
from dataclasses import replace

from dashboard.fleet import SettingValue, State
from dashboard.rules import remedy
from dashboard.rules.domain import ImpactContext
from dashboard.rules.drift import drift
from dashboard.rules.findings import Draft, Evidence, Family, Rollout, Severity
from dashboard.rules.registry import rule
from dashboard.rules.subject import PoolSubject

VERSION = "version"
HASHES_ALIKE = (
    "Defaults, formats and mistakes change with every release, so the same command line gives replicas that answer and "
    "hold differently. Their block hashes are equal: their engines computed them."
)


@rule(
    id="ID-08",
    name="vllm-version-differs",
    family=Family.IDENTITY,
    severity={ImpactContext.MODEL: Severity.WARNING},
    needs=(VERSION,),
)
def vllm_version_differs(pool: PoolSubject) -> Iterator[Draft]:
    """Replicas of one pool run different versions of vLLM.

    Compared is the whole version: two nightly builds differ, and so do a candidate and its release. Builds of one
    version for different platforms, such as 0.32.0 and 0.32.0+cpu, are an info. Where one version replaced most
    replicas' older one not long ago, a rollout is in progress.

    Why it matters:
        - any pool: Defaults, formats and mistakes change with every release, so the same command line gives
          replicas that answer, hash and hold differently.

    How to fix:
        Let a rollout end; else give every replica of the pool the same image.

    Exceptions:
        A canary, for as long as it runs: suppress the finding for it until a day.

    Evidence:
        - vllm-project/vllm#42892
        - vllm-project/vllm#51875

    Example:
        A rollout stopped when one host was full: nine replicas run 0.32.0, one has run 0.20.2 for a month.
    """
    if pool.rollout is not None and not pool.is_ignored(VERSION):
        drafts = iter((_in_progress(pool, pool.rollout),))
    else:
        drafts = (
            replace(draft, severity=Severity.INFO) if _is_one_version(draft) else draft
            for draft in drift(pool, {VERSION: "version of vLLM"})
        )
    yield from (replace(draft, why=HASHES_ALIKE) if _hash_alike(pool, draft) else draft for draft in drafts)


def _is_one_version(draft: Draft) -> bool:
    """Tell whether versions differ in their local part only, which names the platform they were built for."""
    return len({json.loads(each.value).partition("+")[0] for each in draft.evidence}) == 1


def _hash_alike(pool: PoolSubject, draft: Draft) -> bool:
    """Tell whether the engines of all whose versions differ computed the same block hashes."""
    hashes = pool.fingerprints()
    concerned = {replica for each in draft.evidence for replica in each.replicas}
    return concerned <= hashes.keys() and len({hashes[each] for each in concerned}) == 1


def _in_progress(pool: PoolSubject, rollout: Rollout) -> Draft:
    old, new = (SettingValue(json.dumps(release), State.REPORTED) for release in (rollout.old, rollout.new))
    holders = pool.values(VERSION)
    behind = holders.get(old, ())
    return Draft(
        behind,
        f"Rollout in progress: {len(rollout.replicas):,} of {rollout.total:,} replicas run {rollout.new}, the others "
        f"still {rollout.old}.",
        (
            Evidence(VERSION, *old, behind),
            Evidence(VERSION, *new, holders.get(new, ()), is_reference=True),
        ),
        remedy.set_to([(VERSION, new)], "Let the rollout end; if it stopped, give these replicas the new image."),
    )
