"""An address that has answered, be it with a refusal, is waited for."""

from __future__ import annotations

import pytest
from tests.models.test_retry import HELLO, Failing

from kakite.models import errors
from kakite.models.retry import ModelRetry, RetryingModel

pytestmark = pytest.mark.anyio


class StopWaitingError(Exception):
    """The wait that was looked for is planned."""


async def test_a_server_that_was_busy_and_is_started_anew_is_waited_for() -> None:
    failures = [
        errors.build_model_error(errors.UNAVAILABLE, "503", retry_after=0.001),
        errors.build_model_error(errors.UNREACHABLE, "refused", retry_after=9.0),
    ]

    def stop(retry: ModelRetry) -> None:
        if retry.error.code == "model_unreachable":
            raise StopWaitingError

    with pytest.raises(StopWaitingError):
        await RetryingModel(Failing(failures), 600.0, stop).reply("", HELLO, [])
