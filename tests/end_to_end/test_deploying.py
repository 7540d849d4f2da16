"""The systemd unit and the proxy configurations of DEPLOYING.md, checked by systemd and nginx."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.bench.costs import table
from tests.end_to_end.test_documents import ALL

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


def test_the_costs_of_many_devices_are_those_that_the_figures_give() -> None:
    deploying = Path(__file__).parents[2] / "server/DEPLOYING.md"
    assert table() in deploying.read_text("utf-8")


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
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, *form)
    file = folder / "certificate.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file
