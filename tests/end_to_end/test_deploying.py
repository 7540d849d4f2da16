"""The systemd unit and the proxy configurations of DEPLOYING.md, checked by systemd and nginx."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deniable.server.process.addresses import running_server
from deniable.server.surveys.link_surveys import TEMPLATES
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from tests.bench.costs import table
from tests.command import DENIABLE
from tests.documents import commands
from tests.end_to_end.test_documents import ALL
from tests.eventually import PATIENCE, eventually

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SYSTEMD = shutil.which("systemd-analyze")
ONLY_HTTP = "pid {0}/pid; error_log stderr; events {{}} http {{ access_log off; {1} }}"
EXPOSED = 4.0  # a score from which a unit exposes much of the machine


def blocks(section: str, language: str) -> list[str]:
    return [
        block.text
        for block in ALL
        if block.place[:2] == ("server/DEPLOYING.md", section) and block.language == language
    ]


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")
@pytest.mark.parametrize("section", ["A service", "A relay"])
def test_the_unit_is_valid_and_isolates_the_server(section: str, tmp_path: Path) -> None:
    (unit,) = blocks(section, "ini")
    file = tmp_path / "deniable.service"
    file.write_text(unit.replace("/opt/deniable/bin/deniable", "/bin/true"))
    checked = subprocess.run([SYSTEMD or "", "verify", str(file)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = [SYSTEMD or "", "security", "--offline=true", str(file)]
    scored = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    score = re.search(r"exposure level for \S+: ([0-9.]+)", scored)
    assert score is not None
    assert float(score[1]) < EXPOSED


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("section", ["A proxy", "A proxy for the dashboard", "A relay"])
def test_nginx_accepts_the_configuration(section: str, tmp_path: Path) -> None:
    (shown,) = blocks(section, "nginx")
    certificate = self_signed(tmp_path)
    shown = re.sub(r"/etc/letsencrypt/\S+/(fullchain|privkey)\.pem", str(certificate), shown)
    file = tmp_path / "nginx.conf"
    file.write_text(ONLY_HTTP.format(tmp_path, shown))
    command = [NGINX or "", "-t", "-p", str(tmp_path), "-c", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_documented_costs_of_many_devices_are_the_calculated_ones() -> None:
    deploying = Path(__file__).parents[2] / "server/DEPLOYING.md"
    assert table() in deploying.read_text("utf-8")


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_people_answer_a_link_through_the_proxy_with_tls(tmp_path: Path) -> None:
    """Run "Ask by link from other machines" behind "A proxy", on loopback, with a certificate."""
    (line,) = commands(blocks("Ask by link from other machines", "sh")[0])
    words = shlex.split(line.replace("/var/lib/deniable", "data"))
    text = TEMPLATES["yes-no"].toml(datetime.now(UTC).date())
    extra = 'round = "once"\ninvitation = true'
    (tmp_path / words[1]).write_text(text.replace('round = "once"', extra))
    certificate, port = self_signed(tmp_path), free_port()
    command = [*DENIABLE, *words[:-1], f"https://localhost:{port}"]
    more = ["--port", "0", "--dashboard-port", "0", "--json"]
    with subprocess.Popen(
        [*command, *more], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            asked = json.loads(server.stdout.readline())
            assert asked["link"] == f"https://localhost:{port}/ask/our-team"
            assert asked["reaches"] == "machine"
            running = running_server(tmp_path / "data")
            assert running is not None
            with proxy(tmp_path, certificate, port, running.local):
                answer_by_link(tmp_path, certificate, port, asked["id"])
        finally:
            server.terminate()


def answer_by_link(folder: Path, certificate: Path, port: int, survey: str) -> None:
    """List the surveys, and send a report with a code, twice, and another with the same code."""
    done = subprocess.run(
        [*DENIABLE, "invite", "our-team", "--count", "1", "--data", "data"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code = done.stdout.strip().partition("#")[2]
    trusted = ssl.create_default_context(cafile=str(certificate))
    connection = HTTPSConnection("localhost", port, context=trusted, timeout=PATIENCE)
    connection.request("GET", "/v1/surveys")
    assert [one["id"] for one in json.load(connection.getresponse())["surveys"]] == [survey]
    outcomes = []
    for identifier in (b"1" * 16, b"1" * 16, b"2" * 16):
        body = Envelope(survey, 0, identifier, 1, b"\1").pack()
        headers = {"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {code}"}
        connection.request("POST", "/v1/envelopes", body, headers)
        receipt = json.load(connection.getresponse())
        refused = [one["code"] for one in receipt["refused"]]
        outcomes.append((receipt["accepted"], receipt["duplicates"], refused))
    connection.close()
    assert outcomes == [(1, 0, []), (0, 1, []), (0, 0, ["invitation-spent"])]


@contextmanager
def proxy(folder: Path, certificate: Path, port: int, target: str) -> Iterator[None]:
    """Run nginx with the configuration of "A proxy" at a free port."""
    (shown,) = blocks("A proxy", "nginx")
    shown = re.sub(r"/etc/letsencrypt/\S+/(fullchain|privkey)\.pem", str(certificate), shown)
    shown = shown.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    shown = shown.replace("    listen [::]:443 ssl;\n", "")
    shown = shown.replace("http://127.0.0.1:8000", target).replace("stats.example.org", "localhost")
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{name}_temp_path {folder}/{name};" for name in paths)
    file = folder / "nginx.conf"
    file.write_text(ONLY_HTTP.format(folder, f"{places} {shown}"))
    command = [NGINX or "", "-p", str(folder), "-c", str(file), "-g", "daemon off;"]
    with subprocess.Popen(command) as process:
        try:
            eventually(partial(accepts, port), "nginx accepts connections")
            yield
        finally:
            process.terminate()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def self_signed(folder: Path) -> Path:
    """Return a file with a key and a certificate for it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stats.example.org")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, *form)
    file = folder / "certificate.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
