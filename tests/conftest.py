"""What all tests share."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

PROOF = bool(os.environ.get("KAKITE_PROOF"))

settings.register_profile("test", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("proof", parent=settings.get_profile("test"), max_examples=1000)
settings.load_profile("proof" if PROOF else "test")

# A shell that starts us in the background lets us, and all that we start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def proof() -> bool:
    """Whether the slow proofs run at their full counts."""
    return PROOF
