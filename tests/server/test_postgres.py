"""PostgreSQL only: addresses with passwords, roles, standbys, and PostgreSQL's own tools."""

import json
import socket
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from deniable.server.intake.commit import commit
from deniable.server.store import Database, create_store, open_store
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.shared.cli.command import main
from deniable.shared.errors import DeniableError, StoreUnusable, WrongUse
from tests.command import run_alone
from tests.eventually import eventually
from tests.server.postgres import Cluster
from tests.server.surveys import envelope, published, survey
from tests.server.test_writer import upload
from tests.server.world import world

PASSWORD = "s3cr3t"


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return the exit code and the output of a command run in this process."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as end:  # raised by argparse
        code = int(str(end.code))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def refusal(place: Database) -> str:
    """Return the message of a refusal, which must be one line."""
    with pytest.raises(StoreUnusable) as caught:
        create_store(place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Addresses


ODD_PASSWORDS = (
    "s3cr3t", "s3cr3t@s3cr3t", "s3cr3t/s3cr3t", "1?s3cr3t", "s3cr3t#s3cr3t", "1#s3cr3t", "s3cr3t:1",
    "%s3cr3t", "12/s3cr3t", "[s3cr3t]", "s3cr3t,s3cr3t", "1@s3cr3t", "1/s3cr3t@s3cr3t",
    "s3cr3t&s3cr3t=1",
)  # fmt: skip


@pytest.mark.parametrize("password", ODD_PASSWORDS)
def test_no_message_contains_part_of_a_password(
    capsys: pytest.CaptureFixture[str], password: str
) -> None:
    """Some of the addresses parse the password as a host, port or database name."""
    for url in (
        f"postgresql://deniable:{password}@127.0.0.1:1/name",
        f"postgresql://deniable:{password}@/name?host=/nowhere",
        f"postgres://127.0.0.1:1/name?password={password}",
        f"postgresql://127.0.0.1:1/name?{password}=1",
        f"mysql://deniable:{password}@127.0.0.1/name",
        f"deniable:{password}@127.0.0.1",
    ):
        code, out, errors = command(capsys, "survey", "list", "--store", url)
        assert code == 2
        assert PASSWORD not in out + errors
        assert "Traceback" not in errors
        with suppress(DeniableError):
            database = Database(url)
            assert PASSWORD not in f"{database} {database!r}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cr3t@db.example:5433/stats?sslmode=require",
         "postgresql://ann@db.example:5433/stats"),
        ("postgres://db.example/stats", "postgresql://db.example/stats"),
        ("postgresql://[::1]:5432/stats", "postgresql://[::1]:5432/stats"),
        ("postgresql://one:1,two:2/stats", "postgresql://one:1,two:2/stats"),
        ("postgresql:///stats?host=/run/postgresql", "postgresql:///stats?host=/run/postgresql"),
        ("postgresql://ann%40work:s%40@db/my%20stats", "postgresql://ann%40work@db/my%20stats"),
    ],
)  # fmt: skip
def test_the_shown_address_names_the_same_database(url: str, shown: str) -> None:
    said = {name: Database(url).parameters().get(name) for name in ("host", "port", "dbname")}
    again = Database(str(Database(url)))
    assert str(again) == shown
    assert {name: again.parameters().get(name) for name in said} == said


def test_a_password_works_and_is_never_repeated(cluster: Cluster, database: Database) -> None:
    name = str(database.parameters()["dbname"])
    with create_store(Database(cluster.address(name, cluster.password))) as store:
        assert cluster.password not in store.option
        assert store.surveys() == []


# Refusals by the database


def test_a_wrong_password_is_refused_in_one_sentence(cluster: Cluster, database: Database) -> None:
    name = str(database.parameters()["dbname"])
    said = refusal(Database(cluster.address(name, PASSWORD)))
    assert "password authentication failed" in said
    assert PASSWORD not in said


def test_an_unreachable_database_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # a bound port without a listener
        said = refusal(Database(f"postgresql://127.0.0.1:{taken.getsockname()[1]}/name"))
    assert "Connection refused" in said
    assert "No such file" in refusal(Database(f"postgresql:///name?host={tmp_path}"))


def test_a_missing_database_is_refused_in_one_sentence(cluster: Cluster) -> None:
    said = refusal(cluster.database("nowhere"))
    assert 'database "nowhere" does not exist' in said


def test_a_standby_is_refused_at_the_start_and_is_not_ready_later(
    cluster: Cluster, database: Database
) -> None:
    """A standby is read-only, which the test imitates with a setting."""
    name = database.parameters()["dbname"]
    with world(database) as here:
        asked = here.publish(survey())
        cluster.say(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        cluster.cut(database)
        eventually(lambda: "read-only" in here.client.get("/readyz").text, "seen to be a standby")
        assert here.send(envelope(asked, 1)).status_code == 503
        assert "name the primary" in refusal(database)
        cluster.say(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
        cluster.cut(database)
        eventually(lambda: here.client.get("/readyz").status_code == 200, "the primary again")
        assert here.send(envelope(asked, 1)).json["accepted"] == 1


def test_a_role_without_rights_is_refused(cluster: Cluster, database: Database) -> None:
    cluster.say("DROP ROLE IF EXISTS guest")
    cluster.say("CREATE ROLE guest LOGIN")
    guest = Database(database.url.replace("postgres@", "guest@"))
    assert "permission denied" in refusal(guest)
    create_store(database).close()
    with pytest.raises(StoreUnusable, match=r"permission denied for table about; .* must own"):
        open_store(guest)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [("about (subject text)", "is not a deniable database"),
     ("surveys (subject text)", "another program's tables")],
)  # fmt: skip
def test_tables_of_other_programs_are_left_alone(
    database: Database, theirs: str, said: str
) -> None:
    import psycopg

    with psycopg.connect(database.url) as connection:
        connection.execute(f"CREATE TABLE {theirs}")
        connection.commit()
        assert said in refusal(database)
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(query).fetchone() == (1,)


def test_a_failed_group_is_reported_without_its_contents(database: Database) -> None:
    with PostgresStore.create(database) as store:
        asked = published(store, survey())
        with store._writing("change it") as connection:
            connection.execute("ALTER TABLE arrivals_0 ADD CHECK (count > 1)")
        with pytest.raises(StoreUnusable) as caught, store.transaction() as transaction:
            commit(transaction, [upload(asked, 0x41 * 2**64)])
    shown = "".join(traceback.format_exception(caught.value))
    assert "violates check constraint" in shown
    assert "41000000" not in shown


def test_a_server_that_cannot_reach_its_database_reports_it_once(tmp_path: Path) -> None:
    done = run_alone("serve", "--store", f"postgresql:///name?host={tmp_path}", "--port", 0)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "could not create its tables" in done.stderr


# Verbs


def test_verbs_work_on_a_database(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, key, where = tmp_path / "survey.toml", tmp_path / "key.pem", ("--store", database.url)

    def done(*arguments: object) -> str:
        code, out, errors = command(capsys, *arguments)
        assert code == 0, errors
        return out

    done("survey", "new", file)
    done("keys", "new", key)
    code, _, errors = command(capsys, "survey", "publish", file, *where)
    assert (code, "deniable keys new FILE" in errors) == (2, True)
    made = json.loads(done("survey", "publish", file, "--key", key, *where, "--json"))
    assert made["id"][:12] in done("survey", "list", *where)
    assert json.loads(done("results", made["id"], *where, "--json"))["survey"] == made["id"]
    token = json.loads(done("token", "create", "--role", "app", *where, "--json"))
    assert token["role"] in done("token", "list", *where)
    done("survey", "close", made["id"], *where)
    assert "closed" in done("survey", "show", made["id"], *where)


@pytest.mark.parametrize(
    ("arguments", "tool"),
    [
        (("backup", "--to", "copy"), "pg_dump"),
        (("restore", "copy"), "pg_restore"),
        (("doctor", "--repair"), "PostgreSQL's own tools"),
    ],
)
def test_backups_and_checks_are_left_to_postgresql_s_tools(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], tool: str
) -> None:
    code, out, errors = command(capsys, *arguments, "--store", "postgresql:///name")
    assert (code, out) == (2, "")
    assert tool in errors
    assert errors.count("\n") == 1


def test_data_and_store_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--data", "data", "--store", "postgresql:///name")
    assert "not allowed with" in command(capsys, "survey", "list", *both)[2]
    assert "one of the arguments --data --store" in command(capsys, "survey", "list")[2]
    with pytest.raises(WrongUse, match="write a store as postgresql://"):
        Database("data")


def test_a_restored_dump_resumes_where_it_stopped(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """Run the commands that `deniable backup` names, with settled and unsettled envelopes."""
    with PostgresStore.create(database) as store:
        asked = published(store, survey())
        with store.transaction() as transaction:
            commit(transaction, [upload(asked, number) for number in range(100)])
    file, again = cluster.folder / f"{tmp_path.name}.dump", cluster.new_database()
    cluster.program("pg_dump", "--format=custom", f"--file={file}", f"--dbname={database.url}")
    cluster.program("pg_restore", "--exit-on-error", f"--dbname={again.url}", str(file))
    with PostgresStore.open(again) as store:
        with store.transaction() as transaction:
            uploads = [upload(asked, number) for number in (1, 99, 100)]
            assert commit(transaction, uploads) == ["duplicates", "duplicates", "accepted"]
        assert store.report_totals() == {asked.sequence: 101}
