"""What sources say of the same engines: who counts them, whose number stands, and who contradicts whom."""

from dashboard.fleet import Contradiction, EngineReport, Fingerprint, Setting, Source, State
from dashboard.vllm.merging import TOKENS, MergedEngines, merge_engines

PROVIDER, INFO, API, PLUGIN, METRICS = (
    Source.PROVIDER,
    Source.SERVER_INFO,
    Source.CONFIG_API,
    Source.PLUGIN,
    Source.METRICS,
)


def met(**told: tuple[EngineReport, ...] | EngineReport) -> MergedEngines:
    """What comes of the reports, in the order of trust."""
    given = [(Source(name), reports) for name, reports in told.items()]
    by_trust = sorted(given, key=lambda each: list(Source).index(each[0]))
    return merge_engines(
        tuple((source, (reports,) if isinstance(reports, EngineReport) else reports) for source, reports in by_trust)
    )


def contradiction(kept: int, teller: Source, other: int, source: Source) -> Contradiction:
    told = (Setting(str(kept), State.REPORTED, teller), Setting(str(other), State.REPORTED, source))
    return Contradiction(TOKENS, *told)


# One report per rank


def test_reports_of_one_rank_are_put_together_the_most_trusted_first() -> None:
    found = met(server_info=EngineReport(0, 100, 1600), metrics=EngineReport(0, 99, 1599, 2.5))

    assert found.engines == (EngineReport(0, 100, 1600, 2.5),)


def test_without_provider_and_metrics_the_first_report_names_the_rank() -> None:
    assert met(server_info=EngineReport(3, 8), config_api=EngineReport(3, 8)).engines == (EngineReport(3, 8),)


def test_the_ranks_and_numbers_of_the_provider_stand_and_nothing_is_a_sum() -> None:
    """/metrics cannot divide 101 blocks among two engines; the provider knows each one's."""
    print_, other = Fingerprint("c", "e1"), Fingerprint("c", "e2")
    ours = (
        EngineReport(4, 50, 800, 1.5, kv_cache_bytes_per_device=9, fingerprint=print_, max_model_len=512),
        EngineReport(5, 51, 816, 1.6, kv_cache_bytes_per_device=9, fingerprint=other, max_model_len=256),
    )
    summed = (EngineReport(0, None, 800, 1.5, blocks_of_all=21), EngineReport(1, blocks_of_all=21))

    assert met(provider=ours, metrics=summed) == MergedEngines(ours, ())


def test_what_the_provider_could_not_have_comes_from_others_of_the_same_rank() -> None:
    found = met(
        provider=(EngineReport(0), EngineReport(1, fingerprint=Fingerprint("c", "e"))),
        metrics=(EngineReport(0, 50, 800), EngineReport(1, 50)),
    )

    assert found.engines == (EngineReport(0, 50, 800), EngineReport(1, 50, fingerprint=Fingerprint("c", "e")))


def test_of_several_engines_only_the_provider_and_metrics_tell_the_blocks() -> None:
    """Whether another source's number is one engine's or the sum, nobody tells."""
    found = met(
        config_api=EngineReport(0, 16384), metrics=(EngineReport(0, blocks_of_all=5), EngineReport(1, blocks_of_all=5))
    )

    assert found.engines == (EngineReport(0, blocks_of_all=5), EngineReport(1, blocks_of_all=5))


# Contradictions


def test_a_plugin_that_multiplies_contradicts_whoever_tells_vllm_s_own_tokens() -> None:
    multiplied = EngineReport(0, 32768, 4_194_304)
    own = EngineReport(0, 32768, 664_444)

    for teller in (PROVIDER, INFO, METRICS):
        found = met(**{str(teller): own, "plugin": multiplied})

        assert found.contradictions == (contradiction(664_444, teller, 4_194_304, PLUGIN),)
        assert found.engines == (own,)


def test_metrics_and_server_info_may_mean_any_of_the_provider_s_engines() -> None:
    """They keep the number of the engine that answered first."""
    ours = (EngineReport(0, 50, 800), EngineReport(1, 51, 816))

    for tokens in (800, 816):
        told = met(provider=ours, server_info=EngineReport(0, None, tokens), metrics=(EngineReport(0, 50, tokens),))
        assert told.contradictions == ()
    assert met(provider=ours, metrics=(EngineReport(0, 50, 999),)).contradictions == (
        contradiction(800, PROVIDER, 999, METRICS),
    )


def test_a_product_is_not_compared_where_its_blocks_may_be_the_sum_of_several_engines() -> None:
    two = (EngineReport(0, 50, 800), EngineReport(1, 50))

    assert met(plugin=EngineReport(0, 100, 1600), metrics=two).contradictions == ()
