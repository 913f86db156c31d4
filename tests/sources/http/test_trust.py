"""TLS contexts are shared while their files are unchanged, and loaded again after a change."""

import shutil
import ssl
from pathlib import Path

import pytest

from dashboard.sources.http.transport import Trust, load_trust
from tests.sources.polling.hostile import CERTIFICATE


def test_the_cas_of_this_machine_are_loaded_once() -> None:
    assert load_trust(Trust()) is load_trust(Trust())


def test_the_cas_of_this_machine_are_loaded_again_when_their_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    before = load_trust(Trust())
    shutil.copy(CERTIFICATE, tmp_path / "ca.pem")
    after = load_trust(Trust())

    assert [each.cert_store_stats()["x509"] for each in (before, after)] == [0, 1]


def test_a_changed_file_is_loaded_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    """The mount of a Kubernetes secret replaces its file by a link to another one."""
    first, second, link = tmp_path / "1.pem", tmp_path / "2.pem", tmp_path / "ca.pem"
    shutil.copy(CERTIFICATE, first)
    shutil.copy(CERTIFICATE, second)
    link.symlink_to(first)
    before = load_trust(Trust(link))
    same = load_trust(Trust(link))
    link.unlink()
    link.symlink_to(second)
    after = load_trust(Trust(link))
    second.write_text("no certificate")

    assert same is before
    assert after is not before
    with pytest.raises(ssl.SSLError):
        load_trust(Trust(link))


def test_contexts_with_other_contents_are_not_shared() -> None:
    pem = CERTIFICATE.read_bytes()
    several = [
        Trust(),
        Trust(CERTIFICATE),
        Trust(ca_data=pem.decode()),
        Trust(CERTIFICATE, is_checked=False),
        Trust(CERTIFICATE, certificate=CERTIFICATE),
        Trust(CERTIFICATE, pair=pem),
    ]
    contexts = [load_trust(each) for each in several]

    assert len(set(map(id, contexts))) == len(several)
    assert [each.verify_mode is ssl.CERT_NONE for each in contexts] == [False, False, False, True, False, False]


def test_what_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    with pytest.raises(FileNotFoundError):
        load_trust(Trust(file))
    shutil.copy(CERTIFICATE, file)

    assert load_trust(Trust(file)).cert_store_stats()["x509"] == 1
