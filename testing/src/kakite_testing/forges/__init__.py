"""Fake forges for tests and demos: real HTTP, real git, state that people and clients share, no network.

They keep to what GitHub and GitLab do where an agent can notice the difference: rights, drafts, pages, what
is refused and how, what changes where.
"""

from kakite_testing.forges.access import InstalledApp
from kakite_testing.forges.app import Contract, Fault, ForgeRequest, ForgeResponse
from kakite_testing.forges.fake import BOT, FakeForge, FakeGitHub, FakeGitLab, fake_github, fake_gitlab
from kakite_testing.forges.hooks import Delivery, Webhook
from kakite_testing.forges.repository import BareRepository
from kakite_testing.forges.store import FakeForgeError, ForgeNote, ForgeState, Item

__all__ = [
    "BOT",
    "BareRepository",
    "Contract",
    "Delivery",
    "FakeForge",
    "FakeForgeError",
    "FakeGitHub",
    "FakeGitLab",
    "Fault",
    "ForgeNote",
    "ForgeRequest",
    "ForgeResponse",
    "ForgeState",
    "InstalledApp",
    "Item",
    "Webhook",
    "fake_github",
    "fake_gitlab",
]
