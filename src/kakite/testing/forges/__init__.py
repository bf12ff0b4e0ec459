"""Fake forges for tests and demos: real HTTP, real git, state that people and clients share, no network.

They keep to what GitHub and GitLab do where an agent can tell the difference: rights, drafts, pages, what is
refused and how, what changes where.
"""

from kakite.testing.forges.fake import BOT, FakeForge, FakeGitHub, FakeGitLab, fake_github, fake_gitlab
from kakite.testing.forges.github_access import App
from kakite.testing.forges.hooks import Delivery, Hook
from kakite.testing.forges.repository import BareRepository
from kakite.testing.forges.state import FakeForgeError, Item, Ledger, Note
from kakite.testing.forges.wire import Asked, Contract, Fault, Reply

__all__ = [
    "BOT",
    "App",
    "Asked",
    "BareRepository",
    "Contract",
    "Delivery",
    "FakeForge",
    "FakeForgeError",
    "FakeGitHub",
    "FakeGitLab",
    "Fault",
    "Hook",
    "Item",
    "Ledger",
    "Note",
    "Reply",
    "fake_github",
    "fake_gitlab",
]
