"""The id of a replica, one for all spellings of an address, and the entries of `targets_allowed`."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.config.address import AllowedTargets, replica_id, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000"),
        ("  HTTP://GPU-7.Example.COM:8000  ", "http://gpu-7.example.com:8000"),
        ("localhost:8000", "http://localhost:8000"),
        ("gpu_7", "http://gpu_7:80"),
        ("https://gpu-7", "https://gpu-7:443"),
        ("https://gpu-7:", "https://gpu-7:443"),
        ("http://gpu-7:08000", "http://gpu-7:8000"),
        ("gpu-7/Team-A//", "http://gpu-7:80/Team-A"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("[2001:DB8:0:0::1]", "http://[2001:db8::1]:80"),
        ("http://bücher.example", "http://xn--bcher-kva.example:80"),
        ("gpu-7.", "http://gpu-7.:80"),
    ],
)
def test_every_spelling_has_one_id(text: str, expected: str) -> None:
    assert replica_id(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("ftp://gpu-7", "a scheme other"),
        ("http://", "has no host"),
        (":8000", "has no host"),
        ("http:///v1", "has no host"),
        ("http:/gpu-7:8000", "no address"),
        ("gpu 7", "has no host"),
        ("gpu-7\\x:8000", "has no host"),
        ("..", "has no host"),
        ("a" * 64, "has no host"),
        ("gpu-7:port", "no address"),
        ("gpu-7:0", "port outside"),
        ("gpu-7:65536", "port outside"),
        ("::1:8000", "in brackets"),
        ("[10.0.0.1]:8000", "without an IPv6 address"),
        ("[fe80::1%eth0]:8000", "no address"),
        ("gpu-7?x=1", "a query"),
        ("gpu-7#x", "a fragment"),
        ("gpu-7/a b", "a path with spaces"),
        ("gpu-7:8000/metrics", "path of an endpoint; leave it out"),
        ("gpu-7:8000/v1", "path of an endpoint; leave it out"),
        ("gpu-7:8000/pool/v1/models/", "path of an endpoint; leave it out"),
        ("gpu-7/\n", None),
        ("gpu-7/a\nb", "a path with spaces"),
        ("h" * 2049, "longer than 2048"),
    ],
)
def test_another_text_is_refused_with_a_sentence(text: str, why: str | None) -> None:
    if why is None:
        assert replica_id(text) == "http://gpu-7:80"
        return
    with pytest.raises(ValueError, match=why):
        replica_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://user:hunter2@gpu-7:8000",
        "user:hunter2@gpu-7",
        "http://user:hun@hunter2@gpu-7",
        "ftp://user:hunter2@gpu-7",
        "http://user:hunter2/@gpu-7",
        "http://[user:hunter2@gpu-7",
        "http://gpu-7?token=hunter2",
        "http://gpu-7#hunter2",
        "http://u@gpu-7?a@hunter2",
        "user:hunter2@gpu-7:8000/" + "x" * 3000,
    ],
)
def test_no_sentence_contains_a_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"gpu-7") as caught:
        replica_id(text)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in shown(text)


def address_or_sentence(text: str) -> str:
    try:
        return replica_id(text)
    except ValueError as error:
        return f"sentence: {error}"


@given(st.text(alphabet=st.sampled_from("ahtps:/[]@?#.%1:\\ \n\u0130é-_"), max_size=30) | st.text(max_size=40))
@example("http://[::ffff:1.2.3.4]:1/a")
def test_any_text_gives_an_id_or_a_sentence_and_an_id_gives_itself(text: str) -> None:
    found = address_or_sentence(text)
    assert found.isprintable()
    if found.startswith("http"):
        assert replica_id(found) == found


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
