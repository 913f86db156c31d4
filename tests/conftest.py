"""Hypothesis for all tests: few examples, the same in every run, no deadline on a loaded machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fleet", max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fleet")
