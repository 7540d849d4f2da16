"""Files that operators install: units, proxies, rules and images, checked by the real programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # a dependency of schemathesis, without types

from deniable.server.http.messages import INVITATION_HEADER
from deniable.server.process.addresses import running_server
from deniable.server.store.postgres import postgres_database
from deniable.server.store.sqlite import sqlite_database
from deniable.server.surveys.link_surveys import TEMPLATES
from deniable.shared.envelope import CONTENT_TYPE, Envelope
from tests.bench.costs import table
from tests.client.certificates import certificate
from tests.command import DENIABLE
from tests.documents import ROOT, commands, section_of
from tests.end_to_end.browser import CHROMIUM, FLAGS
from tests.end_to_end.test_ask import play, reports
from tests.end_to_end.test_documents import ALL, parsed
from tests.eventually import PATIENCE, eventually
from tests.test_layout import PROJECT

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SYSTEMD, PROMTOOL = shutil.which("systemd-analyze"), shutil.which("promtool")
ONLY_HTTP = "pid {0}/pid; error_log stderr; events {{}} http {{ access_log off; {1} }}"
SERVER, PHONE_ADDRESS = (
    "198.51.100.1",
    "198.51.100.2",
)  # of the second network; for documentation only
EXPOSED = 4.0  # a score from which a unit exposes much of the machine


EXAMPLES, RECIPES = ROOT / "server" / "examples", "server/RECIPES.md"


def blocks(section: str, language: str) -> list[str]:
    return [
        block.text
        for block in ALL
        if block.place[:2] == (RECIPES, section) and block.language == language
    ]


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["deniable.service", "deniable-relay.service"])
def test_the_unit_is_valid_and_isolates_the_server(name: str, tmp_path: Path) -> None:
    unit, file = (EXAMPLES / name).read_text("utf-8"), tmp_path / name
    (line,) = commands(unit)
    parsed(line)
    file.write_text(unit.replace("/opt/deniable/bin/deniable", "/bin/true"))
    checked = subprocess.run([SYSTEMD or "", "verify", str(file)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    command = [SYSTEMD or "", "security", "--offline=true", str(file)]
    scored = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    score = re.search(r"exposure level for \S+: ([0-9.]+)", scored)
    assert score is not None
    assert float(score[1]) < EXPOSED


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("name", ["nginx.conf", "nginx-dashboard.conf", "nginx-relay.conf"])
def test_nginx_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    shown, served = (EXAMPLES / name).read_text("utf-8"), certificate(tmp_path)
    shown = re.sub(r"/etc/letsencrypt/\S+/(fullchain|privkey)\.pem", str(served), shown)
    file = tmp_path / "nginx.conf"
    file.write_text(ONLY_HTTP.format(tmp_path, shown))
    command = [NGINX or "", "-t", "-p", str(tmp_path), "-c", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_accepts_the_jobs_and_the_rules(tmp_path: Path) -> None:
    """Check "Monitor with Prometheus", and as a twin a rule with a mistake."""
    (shown,) = blocks("Monitor with Prometheus", "yaml")
    file = tmp_path / "prometheus.yml"
    (tmp_path / "token").touch()
    shown = shown.replace("/etc/prometheus/deniable-token", str(tmp_path / "token"))
    file.write_text(shown.replace("CHECKOUT", str(ROOT)))
    command = [PROMTOOL or "", "check", "config", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    rules = (EXAMPLES / "alerts.yml").read_text("utf-8").replace("histogram_quantile(", "nothing(")
    (tmp_path / "alerts.yml").write_text(rules)
    file.write_text(shown.replace("CHECKOUT/server/examples", str(tmp_path)))
    assert subprocess.run(command, capture_output=True, text=True).returncode == 1


def test_the_steps_of_an_installation_name_existing_files() -> None:
    """Check "Install on Debian with nginx and TLS" and the sections that add to it."""
    sections = ("Install on Debian with nginx and TLS", "Open the dashboard to other machines")
    steps = [
        block for section in (*sections, "Install the relay") for block in blocks(section, "sh")
    ]
    files = re.findall(r"CHECKOUT/(\S+)", "\n".join(steps))
    assert {Path(file).parent for file in files} == {Path("server/examples")}
    assert len(files) == len({*files}) == 5
    assert all((ROOT / file).is_file() for file in files)
    (installed,) = re.findall(r"python3 -m venv (\S+)", steps[0])
    unit = (EXAMPLES / "deniable.service").read_text("utf-8")
    assert f"ExecStart={installed}/bin/deniable serve" in unit
    (user,) = re.findall(r"nologin (\S+)", steps[0])
    assert f"User={user}\n" in unit


def test_the_image_runs_a_command_that_exists_and_copies_what_is_installed() -> None:
    """Check "Run in a container" without an engine: files, command, ports and health check."""
    image = (ROOT / "server" / "Dockerfile").read_text("utf-8")
    (line,) = commands(image)
    chosen = parsed(line)
    sources = [
        word
        for copied in re.findall(r"^COPY (.+) \S+$", image, re.MULTILINE)
        for word in copied.split()
    ]
    assert all((ROOT / source).exists() for source in sources)
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*packages, "pyproject.toml", PROJECT["project"]["readme"]} <= {*sources}
    assert image.count(f":{chosen.port}/readyz") == 1
    compose = yaml.safe_load((ROOT / "server" / "compose.yaml").read_text("utf-8"))
    (service,) = compose["services"].values()
    folder = (ROOT / "server" / service["build"]["context"]).resolve()
    assert (folder / service["build"]["dockerfile"]).samefile(ROOT / "server" / "Dockerfile")
    ports = {int(port.rpartition(":")[2]) for port in service["ports"]}
    assert ports == {chosen.port, chosen.dashboard_port}
    assert f"data:{chosen.data}" in service["volumes"]


def test_the_documented_costs_of_many_devices_are_the_calculated_ones() -> None:
    assert table() in (ROOT / RECIPES).read_text("utf-8")


def test_the_stated_versions_of_the_schema_are_current() -> None:
    shown = " ".join(section_of(RECIPES, "Upgrade").split())
    folders, databases = sqlite_database.VERSION, postgres_database.VERSION
    assert f"currently {folders} for folders and {databases} for databases" in shown


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_people_answer_a_link_through_the_proxy_with_tls(tmp_path: Path) -> None:
    """Run "Ask by link with TLS" behind the example of nginx, on loopback, with a certificate."""
    (line,) = commands(blocks("Ask by link with TLS", "sh")[0])
    words = shlex.split(line.replace("/var/lib/deniable/data", "data"))
    text = TEMPLATES["yes-no"].toml(datetime.now(UTC).date())
    extra = 'round = "once"\ninvitation = true'
    (tmp_path / words[1]).write_text(text.replace('round = "once"', extra))
    served, port = certificate(tmp_path), free_port()
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
            with proxy(tmp_path, served, f"listen 127.0.0.1:{port} ssl", running.local):
                answer_by_link(tmp_path, served, port, asked["id"])
        finally:
            server.terminate()


PHONE = """\
#!/bin/sh
# Run a browser in the network of the phone, where it trusts the private authority.
exec ip netns exec {network} sh -c '
mount -t tmpfs policies /etc/chromium
mkdir -p /etc/chromium/policies/managed
cp {policy} /etc/chromium/policies/managed
exec {browser} "$@"' phone "$@"
"""


@pytest.mark.long
@pytest.mark.skipif(
    None in (NGINX, CHROMIUM, shutil.which("ip")) or os.geteuid() != 0,
    reason="needs nginx, Chromium, and root with `ip`, to make a second network",
)
def test_a_phone_on_another_network_answers_with_tls_and_not_without(tmp_path: Path) -> None:
    """The browser is in a network of its own, and trusts a private authority for one name."""
    (line,) = commands(blocks("Ask by link with TLS", "sh")[0])
    words = shlex.split(line.replace("/var/lib/deniable/data", "data"))
    (tmp_path / words[1]).write_text(TEMPLATES["yes-no"].toml(datetime.now(UTC).date()))
    authority = certificate(tmp_path, "authority", is_authority=True)
    served = certificate(tmp_path, "ask.example.org", issuer=authority)
    command = [*DENIABLE, *words, "--port", "0", "--dashboard-port", "0", "--json"]
    with (
        second_network() as network,
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            asked = json.loads(server.stdout.readline())
            assert (asked["link"], asked["reaches"]) == (
                "https://ask.example.org/ask/our-team", "everyone",
            )  # fmt: skip
            running = running_server(tmp_path / "data")
            assert running is not None
            listen = f"listen {SERVER}:443 ssl; listen {SERVER}:80"
            with proxy(tmp_path, served, listen, running.local, "ask.example.org"):
                phone = phone_browser(tmp_path, network, authority)
                links = {"exported": asked["link"], "app": f"http://{SERVER}/ask/our-team"}
                flags = [*FLAGS, f"--host-resolver-rules=MAP ask.example.org {SERVER}"]
                flags.append(f"--user-data-dir={tmp_path / 'profile'}")
                seen = play(
                    "", ["elsewhere"], tmp_path, browser=phone, flags=flags, elsewhere=links
                )
        finally:
            server.terminate()
    assert "error" not in seen["elsewhere"], seen["elsewhere"]
    answered, plain = seen["elsewhere"]["exported"], seen["elsewhere"]["app"]
    assert "Your report has arrived." in answered["text"]
    assert [url for method, url in answered["requests"] if method == "POST"] == [
        "https://ask.example.org/v1/envelopes"
    ]
    assert "This browser lacks cryptography that this page needs" in plain["text"]
    assert reports(tmp_path / "data", asked["id"]) == 1


@contextmanager
def second_network() -> Iterator[str]:
    """Make a network that reaches this machine only by one address, and remove it."""
    used = subprocess.run(["ip", "-brief", "address"], capture_output=True, text=True, check=True)
    assert SERVER.rpartition(".")[0] not in used.stdout, "another network has these addresses"
    name = f"phone{os.getpid()}"
    near, far = f"near{os.getpid()}", f"far{os.getpid()}"
    ip(f"netns add {name}")
    try:
        ip(f"link add {near} type veth peer name {far} netns {name}")
        ip(f"address add {SERVER}/30 dev {near}")
        ip(f"link set {near} up")
        ip(f"-n {name} address add {PHONE_ADDRESS}/30 dev {far}")
        ip(f"-n {name} link set {far} up")
        yield name
    finally:
        ip(f"netns delete {name}")


def ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


def phone_browser(folder: Path, network: str, authority: Path) -> str:
    """Return the path of a browser in a network, with a policy that trusts an authority."""
    encoded = authority.read_text().partition("CERTIFICATE-----")[2].partition("-----END")[0]
    policy, file = folder / "trust.json", folder / "phone"
    policy.write_text(json.dumps({"CACertificates": ["".join(encoded.split())]}))
    file.write_text(PHONE.format(network=network, policy=policy, browser=CHROMIUM))
    file.chmod(0o755)
    return str(file)


def answer_by_link(folder: Path, served: Path, port: int, survey: str) -> None:
    """List the surveys, and send a report with a code, twice, and another with the same code."""
    done = subprocess.run(
        [*DENIABLE, "invite", "our-team", "--count", "1", "--data", "data"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code = done.stdout.strip().partition("#")[2]
    trusted = ssl.create_default_context(cafile=str(served))
    connection = HTTPSConnection("localhost", port, context=trusted, timeout=PATIENCE)
    connection.request("GET", "/v1/surveys")
    assert [one["id"] for one in json.load(connection.getresponse())["surveys"]] == [survey]
    outcomes = []
    for identifier in (b"1" * 16, b"1" * 16, b"2" * 16):
        body = Envelope(survey, 0, identifier, 1, b"\1").pack()
        headers = {"Content-Type": CONTENT_TYPE, INVITATION_HEADER: code}
        connection.request("POST", "/v1/envelopes", body, headers)
        receipt = json.load(connection.getresponse())
        refused = [one["code"] for one in receipt["refused"]]
        outcomes.append((receipt["accepted"], receipt["duplicates"], refused))
    connection.close()
    assert outcomes == [(1, 0, []), (0, 1, []), (0, 0, ["invitation-spent"])]


@contextmanager
def proxy(
    folder: Path, served: Path, listen: str, target: str, name: str = "localhost"
) -> Iterator[None]:
    """Run nginx with the example's configuration at another address."""
    shown = (EXAMPLES / "nginx.conf").read_text("utf-8")
    shown = re.sub(r"/etc/letsencrypt/\S+/(fullchain|privkey)\.pem", str(served), shown)
    shown = shown.replace("listen 443 ssl", listen)
    shown = shown.replace("    listen [::]:443 ssl;\n", "")
    shown = shown.replace("http://127.0.0.1:8000", target).replace("stats.example.org", name)
    address, port = listen.removeprefix("listen ").partition(" ")[0].split(":")
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{name}_temp_path {folder}/{name};" for name in paths)
    file = folder / "nginx.conf"
    file.write_text(ONLY_HTTP.format(folder, f"{places} {shown}"))
    command = [NGINX or "", "-p", str(folder), "-c", str(file), "-g", "daemon off;"]
    with subprocess.Popen(command) as process:
        try:
            eventually(partial(accepts, address, int(port)), "nginx accepts connections")
            yield
        finally:
            process.terminate()


def accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])
