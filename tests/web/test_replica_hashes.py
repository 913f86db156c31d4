"""How a replica's engines hash their blocks, beside the other replicas of its pool."""

from dataclasses import replace

import pytest

from dashboard.fleet import Engine, Fingerprint, Replica, Setting, Source, State
from dashboard.web.replica_hashes import NOT_TOLD, SEEDS, block_hashes, likeness, peers, seed_policy
from tests.builders import HOSTILE, engine, replica, setting

OFF = Fingerprint(None, None, "Prefix caching is off.")
SILENT: tuple[Fingerprint | None, ...] = (None,)


def engines(*told: Fingerprint | None) -> tuple[Engine, ...]:
    """An engine for each fingerprint."""
    return tuple(engine(dp_rank=rank, fingerprint=each) for rank, each in enumerate(told))


def hashing(letter: str, canonical: str = "c") -> Fingerprint:
    """A fingerprint by two letters."""
    return Fingerprint(canonical, letter)


def pool(*told: tuple[Fingerprint | None, ...]) -> list[Replica]:
    """Replicas of one pool, by the fingerprints of their engines."""
    return [replica(f"chat-{index}", engines=engines(*each)) for index, each in enumerate(told, start=1)]


A, B, LONGER, OTHER = hashing("a"), hashing("b"), hashing("x"), hashing("z", "y")


@pytest.mark.parametrize(
    ("others", "kind", "sentence"),
    [
        ([], "unknown", "There is no other replica in its pool to share prefixes with."),
        ([SILENT, SILENT], "unknown", "No other replica of its pool tells how it hashes."),
        ([(A,)], "good", "Hashes like 1 other replica of its pool."),
        ([(A,), (A, A)], "good", "Hashes like 2 other replicas of its pool."),
        ([(A,), (A,), SILENT], "good", "Hashes like 2 other replicas of its pool; 1 does not tell."),
        ([(A,), (OTHER,)], "differs", "Hashes like 1 of 2 other replicas of its pool."),
        (
            [(A,), (OTHER,), SILENT],
            "differs",
            "Hashes like 1 of 2 other replicas of its pool that tell; 1 does not tell.",
        ),
        ([(OTHER,), (OTHER,)], "differs", "No other replica of the pool hashes like this."),
        (
            [(OTHER,), SILENT],
            "differs",
            "No other replica of the pool hashes like this, of 1 that tells; 1 does not tell.",
        ),
        ([(OTHER,), (OTHER,), SILENT, (OFF,)], "differs", "like this, of 2 that tell; 2 do not tell."),
        ([(A, OTHER)], "differs", "No other replica of the pool hashes like this."),
        ([(LONGER,), (A,)], "differs", "replicas of its pool. 1 other differs in the block length alone."),
        ([(LONGER,), (B,)], "differs", "hashes like this. 2 others differ in the block length alone."),
    ],
)
def test_a_replica_is_told_with_how_many_others_it_hashes_alike(
    others: list[tuple[Fingerprint | None, ...]], kind: str, sentence: str
) -> None:
    """Who does not tell counts neither way, and is said."""
    glyph, said = likeness(engines(A), pool(*others))

    assert (glyph, said.endswith(sentence)) == (kind, True), said


def test_ranks_that_hash_differently_are_said_to_have_roots_of_their_own() -> None:
    own = "Its ranks hash differently: each engine process has a root of its own."
    assert likeness(engines(A, B), pool((A,)), "random") == ("differs", own)
    assert likeness(engines(A, B), pool((A,))) == ("differs", own)


def test_no_root_of_their_own_is_claimed_where_the_seed_is_not_random() -> None:
    _, said = likeness(engines(A, B), [], "environment")
    assert said == "Its ranks hash differently; they share no prefixes with each other."


def test_without_a_fingerprint_the_engine_s_own_reason_is_said() -> None:
    assert likeness(engines(OFF, OFF), pool((A,))) == ("unknown", "It has no fingerprint: Prefix caching is off.")
    assert likeness(engines(A, OFF), [])[1] == "Rank 1 has no fingerprint: Prefix caching is off."
    assert likeness(engines(A, OFF, OFF), [])[1] == "2 of its ranks have no fingerprint: Prefix caching is off."
    assert likeness(engines(OFF._replace(reason="it is off")), [])[1] == "It has no fingerprint: it is off."
    assert likeness(engines(A, None), [])[1] == "Rank 1 has no fingerprint; no reply tells why."


def test_peers_are_the_counted_others_of_the_pool() -> None:
    """Not itself under another address, not what was last read too long ago, not another pool."""
    one = replica("chat-1", same_process=("http://chat-8:8000",))
    twin = replica("chat-8", same_process=("http://chat-1:8000",))
    second = replica("chat-5", same_process=("http://chat-4:8000",))
    near, old, far = replica("chat-2"), replica("chat-3", fresh=False), replica("embed-1", pool="embed")

    assert peers(one, [one, twin, second, near, old, far]) == (near,)
    assert peers(twin, [one, twin, near]) == (near,)


@pytest.mark.parametrize("policy", ["default", "environment", "random"])
def test_the_seed_policy_is_one_plain_sentence(policy: str) -> None:
    told = block_hashes(replica(engines=engines(A)), [], {"seed_policy": setting(policy)})
    assert f"<p>{SEEDS[policy]}</p>" in told


@pytest.mark.parametrize(
    "told",
    [
        None,
        setting(None),
        setting(7),
        setting(["random"]),
        setting("of my own"),
        Setting('"x"', State.REDACTED, Source.PROVIDER),
    ],
)
def test_a_seed_policy_that_is_not_known_is_not_explained(told: Setting | None) -> None:
    page = block_hashes(replica(engines=engines(A)), [], {"seed_policy": told} if told else {})
    assert not any(sentence in page for sentence in SEEDS.values())


def test_a_redacted_seed_policy_is_none() -> None:
    assert seed_policy({"seed_policy": Setting('"random"', State.REDACTED, Source.PROVIDER)}) is None


def test_what_hashes_no_blocks_has_no_root_and_no_digests_to_show() -> None:
    told = block_hashes(replica(engines=engines(OFF)), [], {"seed_policy": setting("default")})

    assert "It has no fingerprint: Prefix caching is off." in told
    assert SEEDS["default"] not in told
    assert "<table" not in told


def test_digests_that_come_with_a_remark_are_shown_with_it() -> None:
    told = block_hashes(replica(engines=engines(Fingerprint("c", "a", "Only for a connector."))), [], {})

    assert ">a</code>" in told
    assert "Only for a connector." in told


def test_every_rank_shows_both_digests_whole_to_copy() -> None:
    digest = "9f8b7a6c5d4e3f2a1b0c9f8b7a6c5d4e"
    told = block_hashes(replica(engines=engines(Fingerprint("0" * 32, digest), OFF)), [], {})

    assert f'<code class="digest" title="{digest}">{digest}</code>' in told
    assert told.count('<code class="digest"') == 2
    assert '<span class="mute">Prefix caching is off.</span>' in told


def test_a_column_of_reasons_stands_only_where_there_is_one() -> None:
    assert "Reason" not in block_hashes(replica(engines=engines(A)), [], {})
    assert "Reason" in block_hashes(replica(engines=engines(A, None)), [], {})


def test_what_no_reply_tells_has_a_sentence_and_no_table() -> None:
    told = block_hashes(replica(), [], {})
    assert NOT_TOLD in told
    assert "<table" not in told


def test_many_ranks_are_bounded_and_counted() -> None:
    told = block_hashes(replica(engines=engines(*[A] * 500)), [], {})
    assert told.count("<tr>") == 65
    assert "436 more ranks are not shown." in told


def test_foreign_digests_and_reasons_are_escaped_and_cut() -> None:
    bad = replica(engines=engines(Fingerprint(HOSTILE, None, HOSTILE), Fingerprint("x" * 9_999, "y", "z" * 9_999)))
    told = block_hashes(replace(bad, id=HOSTILE), [bad], {"seed_policy": setting(HOSTILE)})

    assert "<img" not in told
    assert "<script" not in told
    assert len(told) < 6_000
