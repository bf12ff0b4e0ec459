"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import lanes
from tests.engines import Engine, docker_engine, load_base_image, podman_engine
from tests.skips import watcher

PROOF = bool(os.environ.get("KAKITE_PROOF"))

settings.register_profile("test", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", parent=settings.get_profile("test"), max_examples=20)
settings.register_profile("proof", parent=settings.get_profile("test"), max_examples=1000)
settings.load_profile("proof" if PROOF else "test")

# A shell that starts us in the background lets us, and all that we start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as `nohup` does
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_ENGINES = {"docker", "podman", "engine"}
_MARKS = {"browser": "browser", "clis": "client", "temporal_server": "slow"}  # of tests, by their fixtures
_FIRST = 1800  # s for a test that needs an engine: whoever is first builds the images


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Let no test be skipped in CI but for a reason that is listed, and take the lane's tests alone."""
    # In the processes of the tests a file opened without its encoding fails, however pytest was started.
    os.environ["PYTHONWARNDEFAULTENCODING"] = "1"
    if (name := str(config.getoption("lane"))) != "all":
        config.pluginmanager.register(lanes.Lane(name), "lane")
    if deadline := lanes.find_deadline(os.environ):
        config.pluginmanager.register(deadline, "deadline")
    if (skips := watcher(os.environ)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(skips, "skips")


# Nothing of the person who runs the tests may reach them: no key, no setting, no state.


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")) or (name.startswith("KAKITE_") and name != "KAKITE_PROOF"):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):  # tests of containers start an engine of their own
        monkeypatch.setenv(name, "unix:///nonexistent/engine.sock")


@pytest.fixture
def clis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let real codex and claude be found, where `make clis` has installed them."""
    folder = Path(__file__).parent / "clients/clis/node_modules/.bin"
    if folder.exists():
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: nearly all that is made then stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _is_for_temporal(item: pytest.Item) -> bool:
    """Return whether a parameter names the engine: such a test asks for its server as it runs."""
    called = getattr(item, "callspec", None)
    return called is not None and any(value == "temporal" for value in called.params.values())


@pytest.hookimpl(tryfirst=True)  # what shares the tests out reads the groups in this same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all that needs an engine, or Temporal, in one of the processes that share the tests.

    It is started once then.
    """
    for item in items:
        fixtures = set(item.fixturenames) if isinstance(item, pytest.Function) else set[str]()
        for fixture in fixtures & _MARKS.keys():
            item.add_marker(_MARKS[fixture])
        needs_engine = not _ENGINES.isdisjoint(fixtures)
        if needs_engine:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.xdist_group("engines"))
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(_FIRST))
        elif "temporal_server" in fixtures or _is_for_temporal(item):
            item.add_marker(pytest.mark.xdist_group("temporal"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def proof() -> bool:
    """Whether the slow proofs run at their full counts."""
    return PROOF


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What a test that cannot try everything chooses by: a failure shows it, and it can be set."""
    number = int(request.config.getoption("randomly_seed", 0) or 0)
    print(f"chosen by --randomly-seed={number}")  # noqa: T201 - told beside a failure
    return number


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a real Temporal server."""
    from tests.temporal import temporal_running

    with temporal_running(tmp_path_factory.mktemp("temporal")) as server:
        yield server.address


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    """A real Docker engine with Kakite's base image, really built, once for all tests."""
    with _tried_twice("Docker") as running, docker_engine() as engine:
        load_base_image(engine, tmp_path_factory.mktemp("person"))
        running()
        yield engine


@pytest.fixture(scope="session")
def podman(docker: Engine) -> Generator[Engine]:
    """Podman, with the same image."""
    with _tried_twice("Podman") as running, podman_engine(docker, image_name("base")) as engine:
        running()
        yield engine


_failed: dict[str, list[str]] = {}


@contextmanager
def _tried_twice(name: str) -> Generator[Callable[[], None]]:
    """Let an engine that does not start cost two tests their time, and tell all others why."""
    causes = _failed.setdefault(name, [])
    if len(causes) == 2:
        pytest.fail(f"{name} did not start for earlier tests: {causes[0]}", pytrace=False)
    started = False

    def running() -> None:
        nonlocal started
        started = True

    try:
        yield running
    except (Exception, pytest.fail.Exception) as error:
        if not started:
            causes.append(f"{type(error).__name__}: {error}")
        raise


def image_name(name: str) -> str:
    """Return what engines call an image of ours."""
    from kakite.sandbox.backends.images import get_reference

    return get_reference(name)
