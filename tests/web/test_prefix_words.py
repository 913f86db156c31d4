"""In a few words: do a pool's replicas agree on what decides prefix sharing."""

from dataclasses import replace

from dashboard.analysis.assembly import Fleet
from dashboard.compare import SharingSentence
from dashboard.fleet import Fingerprint
from dashboard.report.pools.named_paths import by_path, worst
from dashboard.report.pools.prefix_words import is_doubtful, is_needed, is_unshared, prefix_sentences, severity
from dashboard.rules.domain import Router, Store
from dashboard.rules.findings import Severity
from dashboard.rules.subject import FINGERPRINT
from dashboard.web.prefix_words import prefix_band, prefix_words
from tests.builders import CONFIG, HASHING, HOSTILE, SAME_KV, alike, document, down, fleet, hashing, replica, story


def words(told: Fleet, pool: int = 0) -> str:
    """The words for one pool."""
    return prefix_words(told.pools[pool], sentence_of(told, pool), named(told, pool))


def sentence_of(told: Fleet, pool: int = 0) -> SharingSentence:
    """What is said of one pool."""
    return prefix_sentences(told)[told.pools[pool].name]


def named(told: Fleet, pool: int = 0) -> dict[str, Severity]:
    """The settings that findings of the pool name."""
    return worst(by_path(told.inspection, told.pools[pool].name))


def test_cohorts_that_stand_apart_are_named() -> None:
    """Letters, not counts: they lead to the columns of Compare."""
    assert "B and C differ from A" in words(story())
    assert 'class="glyph critical"' in words(story())


def test_two_versions_alone_only_warn() -> None:
    """Whether two releases hash alike is not known, so it is no certain break."""
    assert "versions differ" in words(story(), 4)
    assert 'class="glyph warning"' in words(story(), 4)
    assert not is_unshared(sentence_of(story(), 4))
    assert is_doubtful(sentence_of(story(), 4))
    assert severity(sentence_of(story(), 4), {}) == "warning"


def test_agreement_is_said_only_when_everything_was_read() -> None:
    """One replica that did not answer makes it `unknown for 1`."""
    told = document(SAME_KV)
    measured = alike("chat", 3, told, engines=hashing("a"))

    assert words(fleet(measured, [told])).endswith("all can share")
    assert words(fleet([*measured, down("chat-9")], [told])).endswith("unknown for 1")
    assert words(fleet(alike("chat", 3, told), [told])).endswith(" unknown")
    assert words(fleet([down("chat-9")])).endswith("not known")
    assert words(fleet([replica("chat-1", document=told)], [told])).endswith("one replica")


def test_a_difference_elsewhere_leaves_prefix_sharing_alone() -> None:
    """Split is not the same as unable to share."""
    told = [document(), document({"model_config.seed": 7})]
    split = fleet([replica("a", document=told[0]), replica("b", document=told[1])], told)

    assert words(split).endswith(" unknown")


def test_many_odd_cohorts_are_cut() -> None:
    """A table's cell stays one line."""
    told = [document({"cache_config.block_size": 2**index}) for index in range(8)]
    odd = [replica(f"chat-{index}", document=each) for index, each in enumerate(told[1:], 9)]
    many = fleet([*alike("chat", 2, told[0]), *odd], told)

    assert "B, C, D, E and 3 more differ from A" in words(many)


def test_on_a_tie_no_cohort_is_said_to_differ_from_the_other() -> None:
    """One against one has no majority."""
    told = [document({"cache_config.block_size": size}) for size in (16, 32)]
    even = fleet([replica(f"chat-{index}", document=each) for index, each in enumerate(told)], told)

    assert words(even).endswith("cohorts differ, no majority")


def test_the_band_keeps_values_of_servers_text() -> None:
    """A value in the sentence is escaped and set in monospace."""
    told = [document(), document({"cache_config.prefix_caching_hash_algo": HOSTILE})]
    split = fleet([*alike("chat", 3, told[0]), replica("chat-9", document=told[1])], told, policy=HASHING)
    sentence = sentence_of(split)

    band = prefix_band(sentence, named(split))

    assert "<script>" not in band
    assert "<code>&lt;script&gt;" in band
    assert severity(sentence, named(split)) == "critical"
    assert severity(sentence, {}) == "info"


def test_when_the_largest_cohort_tells_nothing_the_others_are_not_held_against_it() -> None:
    """A says no block size; B and C contradict each other: nobody differs from A."""
    silent = {path: value for path, value in CONFIG.items() if path != "cache_config.block_size"}
    told = [document({"model_config.seed": 1}, base=silent), document({"model_config.seed": 2})]
    told.append(document({"model_config.seed": 2, "cache_config.block_size": 32}))
    members = [*alike("chat", 3, told[0]), *alike("chat", 2, told[1], first=4), replica("c", document=told[2])]

    assert words(fleet([*members], told)).endswith("cohorts differ")
    assert "cohorts differ" in words(fleet([*members], told))


def test_equal_settings_with_other_block_hashes_are_not_called_no_difference() -> None:
    """What engines measured counts: a cohort that differs within itself is named as such, and marked by its finding."""
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"digest {index}")) for index in range(3)]
    split = fleet(members, [told], policy=HASHING)

    assert words(split).endswith("A: equal settings, different hashes")
    assert 'class="glyph critical"' in words(split)
    assert is_unshared(sentence_of(split))
    assert not is_doubtful(sentence_of(split))


def test_a_finding_on_block_hashes_makes_it_as_bad_as_it_is() -> None:
    """It names no setting, for none differs."""
    told = document()
    members = [replica(f"chat-{index}", document=told, engines=hashing(f"digest {index}")) for index in range(3)]

    assert severity(sentence_of(fleet(members, [told])), {FINGERPRINT: Severity.WARNING}) == "warning"


def test_cohorts_that_measurably_hash_in_other_ways_are_held_against_the_largest() -> None:
    """Both are said: who differs within itself, and who from whom."""
    told = [document({"model_config.seed": seed}) for seed in range(5)]
    digests = [("a", "a"), ("b", "b"), ("a",), ("c", "d"), ("e", "f")]
    members = [
        replica(f"chat-{number}{place}", document=each, engines=hashing(digest))
        for number, (each, held) in enumerate(zip(told, digests, strict=True))
        for place, digest in enumerate(held)
    ]
    split = fleet(members, told)
    cohorts = {cohort.replicas[0][7:13]: cohort.letter for cohort in split.pools[0].cohorts}
    others = sorted([cohorts["chat-3"], cohorts["chat-4"]])

    assert f"{others[0]} and {others[1]}: equal settings, different hashes; " in words(split)
    assert " differs from " in words(split)


def test_measured_agreement_is_calm_although_versions_differ() -> None:
    """Two releases that hash alike: nothing to warn of, whatever a rule says of the version."""
    told = [document(SAME_KV), document({**SAME_KV, "version": "0.31.0"})]
    members = [replica(f"chat-{index}", document=each, engines=hashing("a")) for index, each in enumerate(told)]
    both = fleet(members, told)

    assert words(both).endswith("all can share")
    assert 'class="glyph good"' in words(both)
    assert not is_unshared(sentence_of(both))
    assert not is_doubtful(sentence_of(both))


def test_where_only_settings_part_cohorts_that_do_not_tell_no_measured_base_is_named() -> None:
    """B and C tell nothing and contradict each other; the cohort that tells is not the one they differ from."""
    silent = {path: value for path, value in CONFIG.items() if path != "cache_config.block_size"}
    told = [document({"model_config.seed": 1}, base=silent), document({"model_config.seed": 2})]
    told.append(document({"model_config.seed": 3, "cache_config.block_size": 32}))
    members = [
        *alike("chat", 3, told[0], engines=hashing("a")),
        *alike("chat", 2, told[1], first=4),
        replica("c", pool="chat", document=told[2]),
    ]

    assert words(fleet(members, told)).endswith("cohorts differ")


def test_a_pool_that_hashes_no_blocks_stays_calm() -> None:
    """Prefix caching is off everywhere, as it was set up."""
    told = document({"cache_config.enable_prefix_caching": False})
    off = hashing(Fingerprint(reason="prefix caching is off"))

    assert words(fleet(alike("chat", 3, told, engines=off), [told])).endswith("prefix caching off")


def test_settings_that_agree_are_not_called_fine_where_roots_are_probably_random() -> None:
    """Each engine process makes up its root, unless a seed is set that nobody tells."""
    told = document({"cache_config.prefix_caching_hash_algo": "xxhash"})
    doubted = fleet(alike("chat", 2, told), [told])

    assert words(doubted).endswith("probably cannot share")
    assert is_doubtful(sentence_of(doubted))
    assert 'class="glyph unknown"' in words(doubted)


def test_not_all_are_said_to_share_where_not_all_tell() -> None:
    told = document()
    members = [*alike("chat", 2, told, engines=hashing("a")), replica("chat-9", document=told)]

    assert words(fleet(members, [told])).endswith("unknown for 1")


def test_random_roots_that_only_settings_tell_are_no_difference_between_cohorts() -> None:
    told = document({"seed_policy": "random"})

    assert words(fleet(alike("chat", 2, told), [told])).endswith("A: equal settings, different hashes")


def test_what_nobody_uses_is_quiet() -> None:
    """Neither a router nor a store finds prefixes of other replicas there."""
    pool, sentence = story().pools[0], sentence_of(story())

    assert (
        prefix_words(pool, sentence, {}, is_quiet=True)
        == '<span class="mute">not needed here (B and C differ from A)</span>'
    )
    domain = story().inspection.domains[pool.name]
    assert is_needed(domain)
    assert is_needed(None)
    assert not is_needed(replace(domain, router=Router.NONE))
    assert is_needed(replace(domain, router=Router.NONE, kv_store=Store.LMCACHE))


def test_the_claim_stands_out_from_how_it_is_known_and_why() -> None:
    """Bold up to the reason or the end of the sentence; a value in it is in monospace, never cut."""
    told = document(SAME_KV)
    settings = prefix_band(sentence_of(story()), named(story()))
    measured = fleet([replica(f"chat-{n}", document=told, engines=hashing("a")) for n in range(2)], [told])

    assert '<span class="mute">Measured: </span><b>All 2 replicas can share prefixes</b>.' in prefix_band(
        sentence_of(measured), {}
    )
    assert settings.count("<b>") == 1
    assert "</b>: " in settings
    assert settings.index("</b>") < settings.index("<code>")
