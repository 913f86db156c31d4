"""Where the API server of Kubernetes is, and with which credentials it is asked."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from dashboard.config import KubernetesOptions
from dashboard.errors import UnreadableError
from dashboard.sources.kubernetes.access import find_access
from tests.sources.kubernetes_api import write_kubeconfig
from tests.sources.polling.hostile import CERTIFICATE


def options(**more: Any) -> KubernetesOptions:
    return KubernetesOptions.model_validate({"selector": "app=vllm", **more})


def test_a_pod_of_the_cluster_uses_its_account_and_reads_the_token_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
    (tmp_path / "namespace").write_text("llm-d")
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        access = find_access(options(), tmp_path)
        assert (access.server, access.namespace, access.login.key.token) == ("https://[fd00::1]:443", "llm-d", token)


def test_outside_of_a_cluster_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UnreadableError, match="this is no pod of a cluster, and no kubeconfig is named"):
        find_access(options())


def test_the_variable_names_a_kubeconfig_and_a_context_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "k", "http://h:6443")))
    assert find_access(options(context="test")).server == "http://h:6443"
    with pytest.raises(UnreadableError, match="has no context 'none'; correct the file, or set context"):
        find_access(options(context="none"))


@pytest.mark.parametrize(
    ("user", "cluster", "sentence"),
    [
        ("{auth-provider: {name: gcp}}", "", "the user has auth-provider, which Kubernetes removed; use exec"),
        ("{client-certificate-data: '?'}", "", "client-certificate-data is not Base64"),
        ("{client-certificate: none.pem}", "", "the client certificate and its key cannot be read"),
        ("{token: a}", ", certificate-authority: none.pem", "the CA cannot be read as certificates in PEM form"),
        ("{token: a}", ", certificate-authority-data: aGk=", "the CA cannot be read as certificates in PEM form"),
        ("[a", "", "not YAML"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_a_sentence(tmp_path: Path, user: str, cluster: str, sentence: str) -> None:
    file = write_kubeconfig(tmp_path / "k", "https://h", user=user, cluster=cluster)
    with pytest.raises(UnreadableError, match=sentence):
        find_access(options(kubeconfig=file))


def test_polls_share_one_tls_context_until_the_kubeconfig_has_another_certificate(tmp_path: Path) -> None:
    data = b64encode(CERTIFICATE.read_bytes()).decode()
    file = write_kubeconfig(tmp_path / "k", "https://h", user="{token: a}")
    first, second = find_access(options(kubeconfig=file)).login.trust, find_access(options(kubeconfig=file)).login.trust
    write_kubeconfig(file, "https://h", user=f"{{client-certificate-data: {data}}}")
    third = find_access(options(kubeconfig=file)).login.trust

    assert first is second
    assert third is not first


def test_a_token_that_no_header_can_hold_is_not_sent(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "k", "http://h", user="{token: clé}")
    key = find_access(options(kubeconfig=file)).login.key
    assert (key.token, key.missing) == (None, f"the user in {file} holds more than one word of plain characters")
