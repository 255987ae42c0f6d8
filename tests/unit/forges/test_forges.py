"""What follows from a forge's delivery: pure, from bytes to a wish or to why not."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.forges import payload, prompts, settings
from holdfast.forges import settings as template
from holdfast.forges.payload import Assignment, IgnoredDelivery
from holdfast.forges.settings import is_signed
from tests.support import paths

FIXTURES = paths.FIXTURES / "forges"
GITHUB = (FIXTURES / "github-issues-assigned.json").read_bytes()
FORGEJO = (FIXTURES / "forgejo-issues-assigned.json").read_bytes()
STAMP = prompts.DeliveryId("guid-1", "d1")


def table(**more: Any) -> dict[str, Any]:
    made = {"secret": "s3", "users": {"dev-bot": {"agent": "demo"}}, **more}
    return {"repositories": {"acme/rocket": {"cwd": "/src/rocket"}}, **made}


def forge(name: str = "github", **more: Any) -> settings.Forge:
    return settings.read_forges({"forges": {name: table(**more)}})[name]


def assigned(body: bytes = GITHUB) -> Assignment:
    found = payload.read_delivery("issues", body)
    assert isinstance(found, Assignment)
    return found


def changed(body: bytes, change: Any) -> bytes:
    told = json.loads(body)
    change(told)
    return json.dumps(told).encode()


def only_thread(of: settings.Forge, told: Assignment) -> prompts.IssueThread:
    found = prompts.threads(of, told)
    assert not isinstance(found, IgnoredDelivery), found.why
    return found[0]


# --- signatures


def hexed(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def test_each_forge_signs_in_its_own_header() -> None:
    right = hexed("s3", b"{}")
    assert is_signed("github", "s3", {"x-hub-signature-256": "sha256=" + right}, b"{}")
    for kind, header in (
        ("forgejo", "x-forgejo-signature"),
        ("forgejo", "x-gitea-signature"),
        ("gitea", "x-gitea-signature"),
    ):
        assert is_signed(kind, "s3", {header: right}, b"{}")  # type: ignore[arg-type]
        assert not is_signed(kind, "s3", {header: right}, b"{} ")  # type: ignore[arg-type]
        assert not is_signed(kind, "s4", {header: right}, b"{}")  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", ["", "sha256=", "sha1=abc", "é" * 64, "\udcff", "0" * 64])
def test_an_invalid_signature_is_refused(odd: str) -> None:
    assert not is_signed("github", "s3", {"x-hub-signature-256": odd}, b"{}")
    assert not is_signed("forgejo", "s3", {"x-forgejo-signature": odd}, b"{}")
    assert not is_signed("gitea", "s3", {"x-forgejo-signature": hexed("s3", b"{}")}, b"{}")
    assert not is_signed("github", "s3", {}, b"{}")


# --- deliveries


def test_an_assignment_of_github() -> None:
    told = assigned()
    assert (told.repository, told.number, told.to, told.surely) == ("acme/rocket", 1104, ("dev-bot",), True)
    assert (told.author, told.sender, told.labels) == ("ann", "ann", ("bug",))


def test_an_assignment_of_forgejo_does_not_name_the_new_assignee() -> None:
    told = assigned(FORGEJO)
    assert (told.repository, told.number, told.to, told.surely) == ("acme/rocket", 31, ("dev-bot",), True)
    two = changed(FORGEJO, lambda p: p["issue"]["assignees"].append({"login": "ann"}))
    assert assigned(two).to == ("dev-bot", "ann") and not assigned(two).surely


def test_other_deliveries_are_ignored() -> None:
    ping = (FIXTURES / "github-ping.json").read_bytes()
    unassigned = changed(GITHUB, lambda p: p.update(action="unassigned"))
    pull = changed(FORGEJO, lambda p: p["issue"].update(pull_request={"merged": False}))
    for event, body, why in (
        ("ping", ping, "not about issues"),
        ("issues", unassigned, "'unassigned', not assigned"),
        ("issues", pull, "pull request"),
        ("pull_request", GITHUB, "not about issues"),
    ):
        found = payload.read_delivery(event, body)
        assert isinstance(found, IgnoredDelivery) and why in found.why


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"null", b"\xff", b"payload=%7B%7D", b'{"action":"assigned"}', b'{"action":7}'),
        *(b"[" * 90_000, b'{"x":' * 90_000, b'{"x":"\xff","action":"assigned"}'),
    ],
    ids=lambda body: repr(body[:30]),
)
def test_an_invalid_body_is_refused(body: bytes) -> None:
    with pytest.raises(errors.BadInput):
        payload.read_delivery("issues", body)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_result_or_bad_input(body: bytes) -> None:
    with contextlib.suppress(errors.BadInput):
        payload.read_delivery("issues", body)


def test_the_headers_of_a_delivery() -> None:
    assert payload.header_value("forgejo", {"x-gitea-event": "issues"}, "event") == "issues"
    assert payload.header_value("forgejo", {"x-gitea-event": "a", "x-forgejo-event": "b"}, "event") == "b"
    with pytest.raises(errors.BadInput, match="x-github-delivery"):
        payload.header_value("github", {"x-gitea-delivery": "1"}, "delivery")


# --- from an assignment to a wish


def test_a_request_has_key_prompt_and_an_id_from_the_signed_body() -> None:
    of = forge(worktree=True, permissions="allow", template="{repository}#{number} for {user}: {body}")
    thread = only_thread(of, assigned())
    wish = prompts.prompt_request(of, assigned(), thread, STAMP)
    assert wish.key == "github:dev-bot:acme/rocket:1104"
    assert wish.prompt.startswith("acme/rocket#1104 for dev-bot: Steps:")
    assert "says {title} and" in wish.prompt  # what the issue says is not looked at again
    assert (wish.agent, wish.cwd, wish.queue) == ("demo", "/src/rocket", True)
    assert (wish.worktree, wish.permissions) == (True, "allow")
    again = prompts.prompt_request(of, assigned(), thread, STAMP._replace(delivery="forged"))
    other = prompts.prompt_request(of, assigned(), thread, STAMP._replace(digest="d2"))
    assert wish.task == again.task != other.task


def test_a_repository_comes_before_a_user_and_that_before_the_forge() -> None:
    of = forge(
        agent="one",
        time_limit_s=5,
        users={"dev-bot": {"agent": "two", "time_limit_s": 6, "cwd": "/u"}},
        repositories={"acme/rocket": {"agent": "three"}},
    )
    wish = prompts.prompt_request(of, assigned(), only_thread(of, assigned()), STAMP)
    assert (wish.agent, wish.time_limit_s, wish.cwd) == ("three", 6, "/u")


def test_users_and_repositories_ignore_case() -> None:
    of = forge(users={"Dev-Bot": {"agent": "demo"}}, repositories={"ACME/Rocket": {"cwd": "/r"}})
    assert only_thread(of, assigned()).key == "github:Dev-Bot:acme/rocket:1104"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"users": {"somebody": {"agent": "demo"}}}, "none of its assignees is configured"),
        ({"repositories": {"acme/other": {"cwd": "/o"}}}, "'acme/rocket' is not configured"),
        ({"senders": ["bob"]}, "'ann' is not configured"),
    ],
)
def test_an_assignment_that_is_not_configured_is_ignored(more: dict[str, Any], why: str) -> None:
    found = prompts.threads(forge(**more), assigned())
    assert isinstance(found, IgnoredDelivery) and why in found.why


def test_the_new_assignee_if_the_forge_names_all() -> None:
    users = {name: {"agent": "demo"} for name in ("dev-bot", "rev-bot")}
    of = forge("forgejo", users=users)
    both = assigned(changed(FORGEJO, lambda p: p["issue"]["assignees"].append({"login": "rev-bot"})))
    possible = prompts.threads(of, both)
    assert isinstance(possible, list) and len(possible) == 2
    dev, rev = possible
    assert prompts.choose_threads(both, possible, ()) == [dev, rev]
    assert prompts.choose_threads(both, possible, {dev.key}) == [rev]
    assert isinstance(prompts.choose_threads(both, possible, {dev.key, rev.key}), IgnoredDelivery)
    alone = prompts.threads(of, assigned(FORGEJO))
    assert isinstance(alone, list)
    assert prompts.choose_threads(assigned(FORGEJO), alone, {dev.key}) == [dev]  # given to it once more


def test_a_long_issue_is_cut() -> None:
    long = assigned(changed(GITHUB, lambda p: p["issue"].update(body="x" * 100_000)))
    wish = prompts.prompt_request(forge(), long, only_thread(forge(), long), STAMP)
    assert len(wish.prompt) < 66_000 and "the rest is in the forge" in wish.prompt


# --- templates


@given(st.text(), st.text())
def test_a_text_is_filled_in_unchanged(title: str, body: str) -> None:
    assert template.fill_template("{title}|{body}", {"title": title, "body": body}) == f"{title}|{body}"


def test_only_names_are_placeholders() -> None:
    odd = "{title.__class__} {0} {} {title!r} {title:>9} {{title}} {a b} $title %(title)s"
    assert template.unknown_names(odd, ["title"]) == ["0"]
    odd = odd.replace("{0} ", "")
    assert template.fill_template(odd, {"title": "T"}) == odd.replace("{{title}}", "{title}")


# --- settings


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"github": {**table(), "secret": ""}}, "the secret is empty"),
        ({"github": {"users": {"a": {"agent": "demo"}}}}, "set either secret or secret_file"),
        ({"github": table(secret_file="/x")}, "set either secret or secret_file"),
        (
            {"github": {"secret_file": "/no/such", "users": {"a": {"agent": "x"}}}},
            "secret_file cannot be read",
        ),
        ({"work": table()}, "kind is missing"),
        ({"github": table(kind="gitlab")}, 'must be one of "github", "forgejo", "gitea", not \'gitlab\''),
        ({"github": table(users={})}, "[forges.github.users.LOGIN] is missing"),
        ({"github": table(users={"a": {}})}, "users.a needs an agent"),
        ({"github": table(repositories={"rocket": {}})}, "write owner/name"),
        ({"github": table(template="{titel}")}, "has {titel}; allowed: forge, user"),
        ({"github": table(users={"a": {"agent": "x", "cwd": "src"}})}, "[forges.github.users.a]: cwd"),
        ({"github": table(time_limit_s=0)}, "time_limit_s must be greater"),
        (
            {"github": table(time_limit_s="1h")},
            "forges.github.time_limit_s must be a number, not text in quotes",
        ),
        ({"github": table(users={"a": {"agent": 7}})}, "forges.github.users.a.agent must be text in quotes"),
        (
            {"github": table(repositories={"a/b": {"worktree": 1}})},
            'forges.github.repositories."a/b".worktree must be true or false',
        ),
        ({"github": table(users={"a": "demo"})}, "forges.github.users.a must be a table"),
        ({"github": table(senders="ann")}, "forges.github.senders must be a list"),
        ({"Git Hub": table()}, "a forge's name"),
        ({"github": []}, "forges.github must be a table: [forges.github]"),
        ([], "forges must be a table"),
    ],
)
def test_an_error_names_what_is_wrong_with_a_config(tables: Any, told: str) -> None:
    with pytest.raises(errors.BadInput) as refusal:
        settings.read_forges({"forges": tables})
    assert told in refusal.value.message and refusal.value.hint == "see docs/forges.md"


@pytest.mark.parametrize(
    ("more", "told", "hint"),
    [
        ({"sekret": "x"}, "[forges.github] has no setting 'sekret'", "did you mean 'secret'?"),
        (
            {"users": {"a": {"agnet": "demo"}}},
            "[forges.github.users.a] has no setting 'agnet'",
            "did you mean 'agent'?",
        ),
        (
            {"repositories": {"a/b": {"dir": "/x"}}},
            "[forges.github.repositories.\"a/b\"] has no setting 'dir'",
            "known: agent, cwd, worktree, permissions, time_limit_s, template",
        ),
    ],
)
def test_an_unknown_setting_is_named_and_what_may_be_meant(
    more: dict[str, Any], told: str, hint: str
) -> None:
    with pytest.raises(errors.BadInput) as refusal:
        settings.read_forges({"forges": {"github": table(**more)}})
    assert refusal.value.message == f"config.toml: {told}" and refusal.value.hint == hint


def test_a_secret_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3\n")
    of = settings.read_forges(
        {
            "forges": {
                "w": {
                    "kind": "gitea",
                    "secret_file": str(tmp_path / "secret"),
                    "users": {"a": {"agent": "x"}},
                }
            }
        }
    )
    assert (of["w"].secret, of["w"].kind) == ("s3", "gitea")


# --- deliveries in another order than they were sent


def both(body: bytes, updated_at: str, *logins: str) -> Assignment:
    def change(told: dict[str, Any]) -> None:
        told["issue"]["updated_at"] = updated_at
        told["issue"]["assignees"] = [{"login": login} for login in logins]

    return assigned(changed(body, change))


@pytest.mark.parametrize(
    "before, now, overtaken",
    [
        ("2026-11-03T10:04:41+01:00", "2026-11-03T10:04:40+01:00", True),
        ("2026-11-03T10:04:40+01:00", "2026-11-03T10:04:40+01:00", True),
        ("2026-11-03T10:04:40+01:00", "2026-11-03T09:04:39Z", True),
        ("2026-11-03T10:04:40+01:00", "2026-11-03T10:04:41+01:00", False),
        ("", "2026-11-03T10:04:41+01:00", False),
        ("2026-11-03T10:04:41+01:00", "", False),
        ("yesterday", "2026-11-03T10:04:41+01:00", False),
    ],
)
def test_a_delivery_that_a_later_one_overtook_starts_nobody_again(
    before: str, now: str, overtaken: bool
) -> None:
    """[A, B] comes first and starts both; [A], which was sent before it, comes too late."""
    of = forge("forgejo", users={"dev-bot": {"agent": "demo"}, "b": {"agent": "demo"}})
    first, late = both(FORGEJO, before, "dev-bot", "b"), both(FORGEJO, now, "dev-bot")
    threads = prompts.threads(of, first)
    assert isinstance(threads, list)
    assert prompts.choose_threads(first, threads, []) == threads
    source = prompts.prompt_request(of, first, threads[0], STAMP).source
    assert source is not None
    assert prompts.overtakes(source, late) == overtaken
    alone = prompts.threads(of, late)
    assert isinstance(alone, list)
    chosen = prompts.choose_threads(late, alone, {alone[0].key}, {alone[0].key} if overtaken else ())
    assert isinstance(chosen, IgnoredDelivery) == overtaken
    again = prompts.prompt_request(of, late, alone[0], STAMP).source
    assert again is not None and not prompts.overtakes(again, late), "one alone overtakes nobody"
