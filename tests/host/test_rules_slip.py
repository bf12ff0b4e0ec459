"""What slips by a rule that denies, and what a rule for always lets go besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from kakite.host.policy.matchers import (
    CommandPrefix,
    MatchResult,
    PathContext,
    PathGlob,
    match_all,
    match_any,
    suggest_command_prefix,
)


@pytest.mark.parametrize(
    "path",
    [
        "$PWD/secrets/key",
        "`pwd`/secrets/key",
        "$(echo secrets)/key",
        "@(secrets)/key",
        "+(secrets)/key",
        "!(x)/key",
    ],
)
def test_a_path_that_a_server_may_expand_is_asked_about_where_a_rule_denies(
    tmp_path: Path, path: str
) -> None:
    place = PathContext(project=str(tmp_path))
    assert match_any(PathGlob("secrets/**"), path, place) is not MatchResult.NO


@pytest.mark.parametrize(
    ("agreed", "other"),
    [
        ("uv run pytest", "uv run rm -rf /"),
        ("poetry run pytest", "poetry run rm -rf /"),
        ("npm exec prettier", "npm exec evil"),
        ("pnpm dlx prettier", "pnpm dlx evil"),
        ("bundle exec rspec", "bundle exec rm -rf /"),
        ("docker exec app ls", "docker exec app rm -rf /"),
        ("docker run alpine ls", "docker run -v /:/host alpine rm -rf /host"),
        ("ssh host ls", "ssh other rm -rf /"),
        ("find . -name x", "find / -delete"),
        ("find . -name x", "find . -exec rm -rf x +"),
        ("find . -name x", "find . -name x -delete"),
        ("sed -n 1p a", "sed -n 1p a -i b"),
        ("tar tf x", "tar xf x --to-command=sh"),
        ("sed -n 1p a", "sed -i d a"),
        ("terraform plan", "terraform destroy -auto-approve"),
        ("gh pr view", "gh repo delete --yes"),
        ("nix-shell --run ls", "nix-shell --run rm"),
        ("vim -c q a", "vim -c !rm a"),
    ],
)
def test_an_answer_for_always_lets_no_other_program_go(agreed: str, other: str) -> None:
    rule = suggest_command_prefix(agreed)
    assert rule is None or match_all(CommandPrefix(rule.words), other) is not MatchResult.YES
