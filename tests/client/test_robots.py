"""Robots are not people: continuous integration overrules consent, and a container is no home."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deniable.client import InvalidPolicy
from deniable.client.environment import KEPT, ephemeral_reason
from deniable.client.state.ledger import ROBOTS
from tests.client.conftest import MakeClient
from tests.client.scripted import LATER, Script, bit, document
from tests.eventually import PATIENCE
from tests.node import NODE

MOUNTS = """\
22 27 0:21 / /proc rw,relatime shared:1 - proc proc rw
27 1 0:30 / / rw,relatime - {root} none rw
30 27 254:1 /volumes/kept /kept rw,relatime - ext4 /dev/vda rw
31 27 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw
32 27 254:1 /var/lib/kubelet/pods/9/volumes/kubernetes.io~empty-dir/x /scratch rw - ext4 /dev/vda rw
33 27 254:1 /volumes/spaced /with\\040space rw - ext4 /dev/vda rw
35 36 254:1 /volumes/inner /outer/inner rw - ext4 /dev/vda rw
36 27 0:23 / /outer rw - tmpfs tmpfs rw
34 27 0:23 / /kept/memory rw,relatime master:4 - tmpfs tmpfs rw
"""


@pytest.fixture(autouse=True)
def published(script: Script) -> None:
    script.publish(document(period="day", questions=bit("crashed", "0.5")))


# Continuous integration


@pytest.mark.parametrize("name", ["CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "JENKINS_URL"])
def test_continuous_integration_overrules_consent(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing is fetched, charged or sent, not even a report that waits."""
    script.always = LATER
    client = client_of()
    assert client.answer("app-health", crashed=True).status == "queued"
    client.flush(PATIENCE)
    sent = len(script.requests)
    monkeypatch.setenv(name, "true")
    outcome = client.answer("app-health", crashed=True)
    assert outcome.status == "no-consent"
    assert f"{name} is set" in outcome.detail
    assert "allow_ci=True" in outcome.detail
    assert client.flush(PATIENCE) == 1
    assert not client.prefetch(PATIENCE)
    assert client.person("ann").consent(True)
    assert client.person("ann").answer("app-health", crashed=True).status == "no-consent"
    assert len(script.requests) == sent
    assert client.consented, "the choice stays"


@pytest.mark.parametrize("name", ROBOTS)
def test_an_app_may_answer_in_continuous_integration(
    script: Script, client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "https://ci.example/")
    assert client_of().answer("app-health", crashed=True).status == "no-consent"
    client = client_of(allow_ci=True)
    client.person("ann").consent(True)
    assert client.answer("app-health", crashed=True).status == "queued"
    assert client.person("ann").answer("app-health", crashed=True).status == "queued"
    assert client.flush(PATIENCE) == 0
    assert len(script.envelopes()) == 2
    assert "Consent: given." in getattr(client.sent(), "text", "")


def test_an_app_cannot_allow_what_the_person_switched_off(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert client_of(allow_ci=True).answer("app-health", crashed=True).status == "no-consent"


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_a_variable_that_is_off_changes_nothing(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    assert client_of().answer("app-health", crashed=True).status == "queued"


@pytest.mark.parametrize("name", ROBOTS)
def test_the_javascript_client_knows_the_same_robots(
    script: Script, policy_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    program = f"""
        import {{ Client, Policy }} from "./client/javascript/src/index.js";
        import {{ fileStorage }} from "./client/javascript/src/file-storage.js";
        const questions = {{ crashed: "bit" }};
        const policy = new Policy({{ keys: ["{policy_key}"], questions, per: "lifetime" }});
        const now = () => Date.parse("2026-12-10T12:00Z");
        for (const allowCi of [false, true]) {{
            const storage = fileStorage({str(tmp_path / "state")!r});
            const client = new Client("{script.url}", {{ policy, storage, now, allowCi }});
            await client.consent(true);
            console.log((await client.answer("app-health", {{ crashed: true }})).status);
            await client.close();
        }}
    """
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("no-consent\nqueued\n", "")


# Containers


def system(folder: Path, mark: str = ".dockerenv", root: str = "overlay") -> Path:
    """Return the root of a system that looks like a container's."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "run").mkdir()
    (folder / "proc" / "self" / "mountinfo").write_text(MOUNTS.format(root=root))
    if mark:
        (folder / mark).touch()
    return folder


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", "KUBERNETES_SERVICE_HOST"])
@pytest.mark.parametrize(
    ("state", "lost"),
    [
        ("/root/.local/state/my-app", True),
        ("/dev/shm/my-app", True),
        ("/scratch/my-app", True),
        ("/kept/memory/my-app", True),
        ("/kept/my-app", False),
        ("/with space/my-app", False),
        ("/outer/my-app", True),
        ("/outer/inner/my-app", False),
        ("/keptnot/my-app", True),
    ],
)
def test_a_folder_that_a_container_takes_with_it_is_refused(
    tmp_path: Path, mark: str, state: str, lost: bool
) -> None:
    variable = mark.isupper()
    environment = {mark: "10.0.0.1"} if variable else {}
    root = system(tmp_path, "" if variable else mark)
    reason = ephemeral_reason(Path(state), environment, root)
    assert (reason is not None) == lost
    if reason:
        assert state in reason
        assert "mount a volume" in reason
        assert f"set {KEPT}=1" in reason
    assert ephemeral_reason(Path(state), environment | {KEPT: "1"}, root) is None


def test_a_folder_in_memory_is_allowed_outside_a_container(tmp_path: Path) -> None:
    """Overlays are permanent on some small devices."""
    assert ephemeral_reason(Path("/dev/shm/my-app"), {}, system(tmp_path, "")) is None


def test_a_container_on_a_disk_of_its_own_is_allowed(tmp_path: Path) -> None:
    assert ephemeral_reason(Path("/root/my-app"), {}, system(tmp_path, root="ext4")) is None


def test_a_system_without_proc_is_no_container(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    assert ephemeral_reason(Path("/root/my-app"), {}, tmp_path) is None


def test_a_client_in_a_throwaway_container_is_refused_when_it_is_made(
    client_of: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEPT, raising=False)
    monkeypatch.setattr("deniable.client.environment.SYSTEM", system(tmp_path / "system"))
    with pytest.raises(InvalidPolicy, match="is deleted together with this container"):
        client_of(state="/home/my-app")
    assert not Path("/home/my-app").exists()
