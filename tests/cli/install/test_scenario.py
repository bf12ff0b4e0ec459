"""Ten configurations of people who use their clients already: equal to the byte before and after."""

from __future__ import annotations

import json

import pytest

from kakite.host.config import jsonc
from tests.cli.install.program import Person, Scope, person

CLAUDE_STATE = json.dumps(
    {
        "numStartups": 41,
        "tipsHistory": {"new-user-warmup": 3},
        "projects": {"/home/me/shop": {"allowedTools": [], "mcpServers": {}, "lastCost": 0.25}},
        "mcpServers": {"github": {"type": "http", "url": "https://example.test/mcp"}},
        "userID": "0c5a",
    },
    indent=2,
    ensure_ascii=False,
)
CLAUDE_SETTINGS = """{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(npm run test:*)"],
    "deny": [
      "Read(./.env)",
      "Bash(curl:*)"
    ]
  },
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}]}
}
"""
CODEX = """model = "gpt-5-codex"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]   # slow
  [mcp_servers.docs.env]
  LOG = 'no "debug"'

[projects."/home/me/shop"]
trust_level = "trusted"
"""
COPILOT = (
    '{"mcpServers":{"playwright":{"type":"local","command":"npx","args":["@playwright/mcp"],"tools":["*"]}}}'
)
CURSOR = '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"figma": {\r\n\t\t\t"url": "http://127.0.0.1:3845/sse"\r\n\t\t}\r\n\t}\r\n}\r\n'
GEMINI = '{\n    "theme": "GitHub",\n    "mcpServers": {},\n    "selectedAuthType": "oauth-personal"\n}'
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  // the model of the firm
  "model": "anthropic/claude-sonnet-4-5",
  "tools": { "webfetch": false, },
  "mcp": {
    /* off on battery */
    "context7": { "type": "remote", "url": "https://mcp.example.test", "enabled": false }, // later
  },
}
"""
PI = """{
  "mcpServers": {
    "files": { "command": "files-mcp" }
  },
  "settings": { "toolPrefix": "server" }
}
"""
VSCODE = (
    '{\n\t"inputs": [],\n\t"servers": {\n\t\t// mine\n\t\t"git": { "command": "git-mcp" }, // old\n\t}\n}'
)
ZED = """// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "theme": { "mode": "system", "light": "One Light", "dark": "One Dark" },
  "ui_font_size": 16, // larger
  "buffer_font_size": 15,
}
"""
CASES: list[tuple[str, Scope, dict[str, str]]] = [
    ("claude", "user", {".claude.json": CLAUDE_STATE, ".claude/settings.json": CLAUDE_SETTINGS}),
    ("claude", "project", {"project/.mcp.json": '{ "mcpServers": { "o": { "command": "o" } } }\n'}),
    ("codex", "user", {".codex/config.toml": CODEX, ".agents/skills/mine/SKILL.md": "mine"}),
    ("copilot", "user", {".copilot/mcp-config.json": COPILOT}),
    ("cursor", "project", {"project/.cursor/mcp.json": CURSOR}),
    ("gemini", "user", {".gemini/settings.json": GEMINI}),
    ("opencode", "user", {".config/opencode/opencode.json": OPENCODE}),
    ("pi", "project", {"project/.pi/mcp.json": PI, "project/.pi/extensions/mine.ts": "export {}\n"}),
    ("vscode", "project", {"project/.vscode/mcp.json": VSCODE}),
    ("zed", "user", {".config/zed/settings.json": ZED}),
]


@pytest.fixture
def me(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return person(tmp_path_factory.mktemp("person"))


@pytest.mark.parametrize(("client", "scope", "files"), CASES)
@pytest.mark.parametrize("steers", [True, False])
def test_all_is_as_it_was(client: str, scope: Scope, files: dict[str, str], steers: bool, me: Person) -> None:
    for name, text in files.items():
        me.write(name, text)
    before = me.files()
    assert me.install(client, scope, steers=steers).changes
    assert not me.install(client, scope, steers=steers).changes
    me.uninstall(client, scope)
    assert me.files() == before


@pytest.mark.parametrize(("client", "scope", "files"), CASES)
def test_what_you_add_in_between_stays(client: str, scope: Scope, files: dict[str, str], me: Person) -> None:
    written = {name: me.write(name, text) for name, text in files.items()}
    me.install(client, scope)
    for path in written.values():
        path.write_bytes(path.read_bytes() + b"\n")
    me.uninstall(client, scope)
    for name, path in written.items():
        assert path.read_bytes() == files[name].encode() + b"\n"


def test_a_server_that_you_add_behind_ours_stays(me: Person) -> None:
    file = me.write(".config/opencode/opencode.json", OPENCODE)
    me.install("opencode", steers=False)
    text = file.read_text(encoding="utf-8")
    at = jsonc.parse(text).spots["mcp", "kakite"].end
    mine = ',\n    "mine": { "type": "local", "command": ["mine"] }'
    file.write_text(text[:at] + mine + text[at:], encoding="utf-8")
    me.uninstall("opencode")
    expected = jsonc.parse(OPENCODE).value
    expected["mcp"]["mine"] = {"type": "local", "command": ["mine"]}
    assert jsonc.parse(file.read_text(encoding="utf-8")).value == expected
