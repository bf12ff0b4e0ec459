"""What a run works with. Whoever starts a run chooses the parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kakite.agent.aside import Aside
from kakite.agent.day import Days
from kakite.agent.events import Listener
from kakite.agent.record import Record
from kakite.agent.relay import Relay
from kakite.agent.remote import Mirror
from kakite.agent.tooling import Tooling
from kakite.host import Approver, Rule
from kakite.models.model import Model
from kakite.sandbox import Limits, Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a run works with. Whoever starts a run chooses them."""

    record: Record
    mirror: Mirror
    relay: Relay
    """What the sandbox reaches the mirror by."""
    sandbox: Sandbox
    limits: Limits
    """Those of the sandbox."""
    model: Model
    rules: Sequence[Rule]
    approver: Approver
    author: tuple[str, str]
    """Name and e-mail address that commits carry."""
    days: Days | None = None
    """Where what all tasks of a day use up is added up; None: nowhere."""
    tooling: Tooling = field(default_factory=Tooling)
    """What the person's settings say of editor and further servers."""
    stream: bool = False
    aside: Aside | None = None
    """Where work in progress is kept beside the branch; None: it is not."""
    listener: Listener = lambda _event: None
