"""nginx serves files as the answers of replicas: one on each address of 127.0.0.0/8, which is local on Linux."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.serving import free_port, started, wait_for

CONFIG = """
daemon off; worker_processes 1; pid nginx.pid; error_log /dev/null;
events {{ worker_connections 16384; }}
http {{
  allow 127.0.0.0/8; deny all; access_log off; default_type application/json; {options}
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 0.0.0.0:{port} backlog=4096; {locations} location / {{ return 404 '{{"detail":"Not Found"}}'; }} }}
}}
"""


@contextmanager
def nginx(folder: Path, locations: str, options: str) -> Iterator[int]:
    """Serve locations from files in a folder; yield the port."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "nginx is missing: tests/tools/install installs it"
    folder.chmod(0o755)  # nginx's worker is another user
    port = free_port()
    (folder / "nginx.conf").write_text(CONFIG.format(port=port, locations=locations, options=options))
    with started([program, "-p", str(folder), "-c", str(folder / "nginx.conf")]):
        wait_for(lambda: _listens(port))
        yield port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
