from __future__ import annotations

import json
import multiprocessing
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import UsageError
from kakite.host.policy.matchers import CommandPrefix, MatchResult, PathGlob
from kakite.host.policy.rules import (
    Rule,
    RulesError,
    RuleStore,
    ToolIdentity,
    decide,
    list_narrower_rules,
    make_exact_rule,
    parse_rule,
    serialize_rule,
)
from kakite.tools import ToolCall
from tests.bounds import WITHIN

texts = st.text(min_size=1, max_size=8)
conditions = st.one_of(texts, texts.map(PathGlob), st.just(CommandPrefix("git status")))
allowing = st.builds(
    Rule,
    decision=st.just("allow"),
    tool=texts,
    server=st.text(max_size=5),
    arguments=st.dictionaries(texts, conditions, max_size=3),
    at_most=st.sampled_from(["read", "write", "execute"]),
    after_outside=st.sampled_from(["ask", "own", "any"]),
)
others = st.builds(
    Rule,
    decision=st.sampled_from(["ask", "deny"]),
    tool=texts,
    arguments=st.dictionaries(texts, conditions, max_size=3),
)


@given(st.one_of(allowing, others))
def test_a_rule_that_is_written_reads_as_it_was(rule: Rule) -> None:
    assert parse_rule(json.loads(json.dumps(serialize_rule(rule)))) == rule


@pytest.mark.parametrize(
    ("given_rule", "names"),
    [
        ({"alow": "x"}, "allow"),
        ({"allow": "x", "deny": "y"}, "one of"),
        ({"allow": "x", "argumets": {}}, "arguments"),
        ({"allow": ""}, "allow"),
        ({"allow": 1}, "allow"),
        ({"allow": "x", "arguments": {"p": {"glob": "x"}}}, "path"),
        ({"allow": "x", "arguments": {"p": {"begins": ""}}}, "begins"),
        ({"allow": "x", "arguments": {"p": {"path": "x", "begins": "y"}}}, "path"),
        ({"allow": "x", "arguments": []}, "arguments"),
        ({"allow": "x", "at_most": "raed"}, "read"),
        ({"deny": "x", "at_most": "read"}, "at_most"),
        ({"ask": "x", "after_outside": "any"}, "after_outside"),
        ("allow x", "object"),
    ],
)
def test_what_is_no_rule_is_refused_and_the_way_on_named(given_rule: object, names: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(given_rule)
    assert names in f"{caught.value.message} {caught.value.hint}"


@given(
    server=st.text("ab_*[]?", max_size=4),
    tool=st.text("ab_*[]?", min_size=1, max_size=6),
    other=st.text("ab_*[]?", min_size=1, max_size=6),
)
def test_a_rule_for_exactly_one_tool_is_for_no_other(server: str, tool: str, other: str) -> None:
    rules = [make_exact_rule("allow", server, tool)]
    for name in (tool, other):
        asked = ToolCall(id="1", name="legal", arguments={})
        said = decide(rules, asked, ToolIdentity(server=server, tool=name))
        assert said == ("allow" if name == tool else "ask")


def test_rules_are_kept_listed_and_removed(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path / "state")
    assert saved.list_rules() == ()
    one = saved.add(make_exact_rule("allow", "files", "write"), project="/p", definition="d")
    two = saved.add(Rule(decision="deny", tool="x"))
    assert RuleStore(tmp_path / "state").list_rules() == (one, two)
    assert (one.project, one.definition, one.made[-6:]) == ("/p", "d", "+00:00")
    assert saved.remove(one.number) == (one,)
    assert saved.list_rules() == (two,)
    assert saved.add(Rule(decision="allow")).number > two.number
    assert stat.S_IMODE(saved.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(saved.file.parent.stat().st_mode) == 0o700


def test_an_answer_neither_holds_nor_goes_for_a_tool_without_a_definition(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    rule = make_exact_rule("allow", "files", "write")
    answer = saved.add(rule, project="/p", definition="d")
    by_hand = saved.add(Rule(decision="deny", tool="x"))
    subject = ToolIdentity(server="files", tool="write", project="/p")
    assert saved.find_applicable(subject, "files__write", "") == (by_hand,)
    assert saved.list_rules() == (answer, by_hand)


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    first = saved.add(Rule(decision="allow"))
    saved.remove(first.number)
    assert saved.add(Rule(decision="deny")).number > first.number


def test_the_same_rule_is_kept_once(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    assert saved.add(Rule(decision="deny")) == saved.add(Rule(decision="deny"))
    assert len(saved.list_rules()) == 1


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(RulesError) as caught:
        RuleStore(tmp_path).remove(1)
    assert caught.value.code == "no_such_rule"


@given(removed=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_rules_are_removed_all_or_none(tmp_path_factory: pytest.TempPathFactory, removed: list[int]) -> None:
    saved = RuleStore(tmp_path_factory.mktemp("state"))
    kept = [saved.add(Rule(decision="allow", tool=str(number))) for number in range(4)]
    unknown = {number for number in removed if number > 4}
    if unknown:
        with pytest.raises(RulesError) as caught:
            saved.remove(*removed)
        assert caught.value.code == "no_such_rule"
        assert {int(word) for word in re.findall(r"\d+", caught.value.message)} == unknown
        assert saved.list_rules() == tuple(kept)
    else:
        assert {each.number for each in saved.remove(*removed)} == set(removed)
        assert saved.list_rules() == tuple(each for each in kept if each.number not in removed)


def test_an_answer_holds_in_its_project_for_its_definition(tmp_path: Path) -> None:
    saved = RuleStore(tmp_path)
    rule = saved.add(make_exact_rule("allow", "files", "write"), project="/p", definition="d")
    everywhere = saved.add(Rule(decision="deny", tool="x"))
    subject = ToolIdentity(server="files", tool="write", project="/p")
    assert saved.find_applicable(subject, "files__write", "d") == (rule, everywhere)
    elsewhere = ToolIdentity(server="files", tool="write", project="/q")
    assert saved.find_applicable(elsewhere, "files__write", "other") == (everywhere,)
    other_tool = ToolIdentity(server="files", tool="read", project="/p")
    assert saved.find_applicable(other_tool, "files__read", "other") == (everywhere,)
    assert saved.list_rules() == (rule, everywhere)
    assert saved.find_applicable(subject, "files__write", "changed") == (everywhere,)
    assert saved.list_rules() == (everywhere,)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"rules": [{}], "next": 1}', '{"rules": [{"rule": {"alow": "x"}}]}', "\x00"]
)
def test_a_file_that_is_none_of_ours_is_not_taken_for_an_empty_one_nor_written_over(
    tmp_path: Path, content: str
) -> None:
    saved = RuleStore(tmp_path)
    saved.file.write_text(content, encoding="utf-8")
    for use in (saved.list_rules, lambda: saved.add(Rule(decision="allow"))):
        with pytest.raises(RulesError) as caught:
            use()
        assert caught.value.code == "rules_unusable"
    assert saved.file.read_text(encoding="utf-8") == content


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text('{"rules": [], "next": 1}', encoding="utf-8")
    saved = RuleStore(tmp_path / "state")
    saved.file.parent.mkdir()
    saved.file.symlink_to(tmp_path / "theirs")
    with pytest.raises(RulesError):
        saved.list_rules()


def _add(folder: Path, name: str) -> None:
    for number in range(20):
        RuleStore(folder).add(Rule(decision="allow", tool=f"{name}{number}"))


@pytest.mark.slow
def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(tmp_path, name)) for name in "abc"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(WITHIN)
        assert worker.exitcode == 0
    rules = RuleStore(tmp_path).list_rules()
    assert len({rule.rule.tool for rule in rules}) == 60
    assert len({rule.number for rule in rules}) == 60


def test_what_another_process_saved_is_seen(tmp_path: Path) -> None:
    ours, theirs = RuleStore(tmp_path), RuleStore(tmp_path)
    assert ours.list_rules() == ()
    rule = theirs.add(Rule(decision="deny"))
    assert ours.list_rules() == (rule,)


argument_texts = st.dictionaries(
    st.sampled_from(["x", "path", "y"]), st.text("ab*?[]{/.$", min_size=1), min_size=1
)


@given(one=argument_texts, other=argument_texts)
def test_a_rule_for_less_fits_its_call_and_none_with_another_text(
    one: dict[str, str], other: dict[str, str]
) -> None:
    subject = ToolIdentity(server="s", tool="t")
    whole = make_exact_rule("allow", "s", "t")
    mine, another = (ToolCall(id="1", name="t", arguments=dict(given)) for given in (one, other))
    for rule in list_narrower_rules(whole, mine, subject):
        assert rule.match(mine, subject) is MatchResult.YES
        texts = {name for name, matcher in rule.arguments.items() if isinstance(matcher, str)}
        if any(one[name] != other.get(name) for name in texts):
            assert rule.match(another, subject) is not MatchResult.YES


@pytest.mark.parametrize("way", ["../", "%2e%2e/", ".%2E/", "%252e%252e%252f", "..\\", "x/..", ".\t./"])
def test_an_address_that_may_lead_elsewhere_fits_no_rule_that_allows(way: str) -> None:
    call = ToolCall(id="1", name="a__resources/read", arguments={"uri": f"file:///docs/{way}"})
    subject = ToolIdentity(server="a", tool="resources/read")
    docs: Any = {"uri": "file:///docs/*"}
    assert Rule(decision="allow", arguments=docs).match(call, subject) is MatchResult.NO
    assert Rule(decision="allow").match(call, subject) is MatchResult.YES
    secret = Rule(decision="deny", arguments={"uri": "file:///secret*"})
    assert decide([secret, Rule(decision="allow")], call, subject) == "ask"
    assert decide([Rule(decision="deny", arguments=docs)], call, subject) == "deny"


@given(st.from_regex(r"[a-z0-9._ -]{1,9}(/[a-z0-9._-]{1,9}){0,3}", fullmatch=True))
def test_an_address_without_detours_fits_where_it_lies(path: str) -> None:
    call = ToolCall(id="1", name="a__resources/read", arguments={"uri": f"file:///docs/{path}"})
    rule = Rule(decision="allow", arguments={"uri": "file:///docs/*"})
    fits = rule.match(call, ToolIdentity(server="a", tool="resources/read"))
    assert (fits is MatchResult.YES) == (".." not in path.split("/"))
