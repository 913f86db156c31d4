"""Commands on a dashboard whose certificate is of a private CA, as docs/access.md has it."""

import ssl
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.docs_pages import code_blocks, docs_page
from tests.serving import ROOT, free_port, started, wait_for
from tests.sources.prometheus_server import prometheus, wait_for_result

TOKEN = "fleet_of_a_private_ca"
NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
OF_CA = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
NOT_TRUSTED = "is not trusted (unable to get local issuer certificate). Set ca_file in fleet.yaml or SSL_CERT_FILE."


@pytest.mark.long
@pytest.mark.browser
def test_commands_trust_the_ca_of_the_docs_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, more in (("ca", []), ("own", ["-addext", "subjectAltName=DNS:localhost", *OF_CA])):
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        subprocess.run([*NEW, *files, *more], cwd=tmp_path, check=True, capture_output=True)
    entry = {"name": "ci", "role": "viewer", "sha256": sha256(TOKEN.encode()).hexdigest()}
    access = {"mode": "proxy", "trusted_proxies": ["unix"], "roles": {"viewer": ["*"]}, "tokens": [entry]}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump({"targets": ["127.0.0.1:9"], "access": access}))
    monkeypatch.setenv("FLEET_TOKEN", TOKEN)
    monkeypatch.setenv("HOME", str(tmp_path))
    port = free_port()
    url, ca = f"https://localhost:{port}", str(tmp_path / "ca.pem")
    tls = {
        f"STREAMLIT_SERVER_SSL_{what}_FILE": f"{tmp_path}/own.{end}" for what, end in (("CERT", "pem"), ("KEY", "key"))
    }

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "dashboard", *arguments, "--token-env", "FLEET_TOKEN"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stderr

    def is_ready() -> bool:
        try:
            return httpx2.get(f"{url}/readyz", verify=ssl.create_default_context(cafile=ca), trust_env=False).is_success
        except httpx2.TransportError:
            return False

    serve = [sys.executable, "-m", "dashboard", "serve", "--config", f"{tmp_path}/fleet.yaml", "--port", str(port)]
    with started(serve, environment=tls) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Dashboard on {url} (Ctrl-C to stop)\n"
        wait_for(is_ready)
        check = ["check", "--since", "7d", "--history", url, "--config", f"{tmp_path}/fleet.yaml"]
        assert said(*check) == f"exit 2: The certificate of localhost:{port} {NOT_TRUSTED}\n"
        monkeypatch.setenv("SSL_CERT_FILE", ca)
        assert said(*check).startswith("exit 2: The history has no poll at ")
        job = {
            "job_name": "dashboard",
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [f"localhost:{port}"]}],
            "scheme": "https",
            "tls_config": {"ca_file": "ca.pem"},
        }
        with prometheus(tmp_path, [], jobs=[job]) as server:
            wait_for_result(server, "up == 1", bool)
        picture = ["screenshot", url, "-o", f"{tmp_path}/picture.png"]
        assert "unable to verify the first certificate" in said(*picture)
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", ca)
        assert "ERR_CERT_AUTHORITY_INVALID" in said(*picture)
        (line,) = (each for each in code_blocks(docs_page("access"), "sh") if "certutil" in each)
        subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True)
        assert said(*picture).startswith(f"{tmp_path}/picture.png: 1600 x 1000 pixels")
