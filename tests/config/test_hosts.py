"""The entries of `targets_allowed`."""

import pytest

from dashboard.config.address import AllowedTargets


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.1.2.3:1", "10.255.0.1:8000"], ["11.0.0.1:8000", "10.0.0.1.example.com:8000", "[::1]:1"]),
        ("10.0.0.7", ["10.0.0.7:1"], ["10.0.0.8:1"]),
        ("10.0.0.0/8:8000", ["10.1.2.3:8000"], ["10.1.2.3:8001"]),
        ("fd00::/8", ["[fd00::1]:1"], ["[fe80::1]:1", "10.0.0.1:1"]),
        ("[fd00::/8]:8000", ["[fd00::1]:8000"], ["[fd00::1]:80"]),
        ("[fd00::1]", ["[fd00::1]:80"], ["[fd00::2]:80"]),
        ("::1", ["[::1]:80"], ["127.0.0.1:80"]),
        ("gpu-7.example.com:8000", ["gpu-7.example.com:8000", "gpu-7.example.com.:8000"], ["gpu-7.example.com:80"]),
        ("GPU-?.example.com", ["gpu-7.example.com:1"], ["gpu-77.example.com:1", "gpu-..example.com:1"]),
        (
            "*.example.com",
            ["a.example.com:1", "a.b.example.com:1"],
            ["example.com:1", "aexample.com:1", "a.example.co:1"],
        ),
        ("vllm-*", ["vllm-1:8000", "vllm-:1"], ["vllm-1.attacker.test:8000"]),
        ("*.chat.svc", ["a-1.chat.svc:1"], ["a.chat.svc.attacker.test:1", ".chat.svc:1"]),
    ],
)
def test_an_entry_allows_what_is_inside(entry: str, inside: list[str], outside: list[str]) -> None:
    allowed = AllowedTargets.of(entry)

    assert [each for each in inside if not allowed.allows(f"http://{each}/team-a")] == []
    assert [each for each in outside if allowed.allows(f"http://{each}/team-a")] == []
