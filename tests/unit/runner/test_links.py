"""Pull requests in what agents say."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.event import NewEvent
from holdfast.runner.recorder import MOST, Forge, PullRequest, pull_requests_in


def said(text: str) -> list[str]:
    return [link.url for link in pull_requests_in(NewEvent("assistant", {"text": text}))]


HUB, LAB, FORGE = (
    "https://github.com/o/r/pull/12",
    "https://gitlab.com/g/sub/p/-/merge_requests/3",
    "https://codeberg.org/o/r/pulls/7",
)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (HUB, [HUB]),
        (f"see {LAB}.", [LAB]),
        (f"({FORGE})", [FORGE]),
        (f"[the PR]({HUB}), and more", [HUB]),
        (f"[{HUB}]({HUB})", [HUB]),
        (f"<{HUB}>", [HUB]),
        (f"`{HUB}`!", [HUB]),
        (f"**{HUB}** __{LAB}__ ~~{FORGE}~~", [HUB, LAB, FORGE]),
        (f"_{HUB}_", [HUB]),
        (f'{{"url":"{HUB}"}}', [HUB]),
        (f"{HUB}…", [HUB]),
        (f"{HUB}。{LAB}です", [HUB, LAB]),
        (f"{HUB}...", [HUB]),
        (f"{HUB};{FORGE},", [HUB, FORGE]),
        (f"\x1b]8;;{HUB}\x1b\\#12\x1b]8;;\x1b\\", [HUB]),
        (f"{HUB}/files", [HUB]),
        (f"{HUB}/files#diff-1", [HUB]),
        (f"{HUB}/commits/abc?x=1", [HUB]),
        (f"{HUB}?notification=1", [HUB]),
        (f"{HUB}#issuecomment-1", [HUB]),
        (f"{HUB}.diff {HUB}.patch.", [HUB]),
        (f"{HUB}/", [HUB]),
        (f"{LAB}/diffs", [LAB]),
        (f"{LAB}#note_1", [LAB]),
        (f"{FORGE}/files", [FORGE]),
        ("HTTPS://GitHub.com/O/r/pull/12", ["https://github.com/O/r/pull/12"]),
        ("http://localhost:3000/o/r/pulls/1", ["http://localhost:3000/o/r/pulls/1"]),
        ("http://[::1]:3000/o/r/pulls/1", ["http://[::1]:3000/o/r/pulls/1"]),
        ("https://git.x.org:443/o/r/pulls/1", ["https://git.x.org/o/r/pulls/1"]),
        ("https://git.x.org:80/o/r/pulls/1", ["https://git.x.org:80/o/r/pulls/1"]),
        ("https://me:secret@github.com/o/r/pull/12", [HUB]),
        ("https://ghe.example.com/o/my.repo_x-y/pull/9", ["https://ghe.example.com/o/my.repo_x-y/pull/9"]),
        ("https://g.org/a/b/c/d/e/-/merge_requests/5", ["https://g.org/a/b/c/d/e/-/merge_requests/5"]),
        (f"https://x.org/login?next={HUB}", [HUB]),
        (f"{HUB} {HUB}/files {LAB} {HUB}", [HUB, LAB]),
        (f"http{HUB[5:]} {HUB}", [f"http{HUB[5:]}"]),
        # What is no pull request.
        ("https://github.com/o/r/pull/new/branch", []),
        ("https://github.com/o/r/pull/12a", []),
        ("https://github.com/o/r/pull/0", []),
        ("https://github.com/o/r/pull/", []),
        ("https://github.com/o/r/pull", []),
        ("https://github.com/o/r/pulls", []),
        ("https://github.com/o/r/pulls/12", []),
        ("https://github.com/o/r/issues/12", []),
        ("https://github.com/o/r/blob/main/pull/12", []),
        ("https://github.com/o//pull/12", []),
        ("https://github.com/o/../pull/12", []),
        ("https://api.github.com/repos/o/r/pulls/12", []),
        ("https://ghe.example.com/api/v3/repos/o/r/pulls/12", []),
        ("https://codeberg.org/api/v1/repos/o/r/pulls/7", []),
        ("https://gitlab.com/api/v4/projects/1/merge_requests/3", []),
        ("https://gitlab.com/p/-/merge_requests/3", []),
        ("https://gitlab.com/g/p/-/merge_requests/new?x", []),
        ("https://gitlab.com/g/p/-/merge_requests", []),
        ("https://gitlab.com/g/p/-/", []),
        ("https://gitlab.com/g/p/-/issues/3", []),
        ("https://gitlab.com/g/-/-/merge_requests/3", []),
        ("github.com/o/r/pull/12", []),
        ("ssh://git@github.com/o/r/pull/12", []),
        ("xhttps://github.com/o/r/pull/12", []),
        ("https:///o/r/pull/12", []),
        ("https://github.com/o/r/pull/99999999999", []),
    ],
)
def test_the_table(text: str, urls: list[str]) -> None:
    assert said(text) == urls


def test_what_is_told_of_one() -> None:
    [link] = pull_requests_in(
        NewEvent("tool_summary", {"call": "1", "name": "t", "outcome": "ok", "output": f"{LAB}\n"})
    )
    assert link == PullRequest(LAB, "gitlab", "gitlab.com", "g/sub/p", 3)


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (NewEvent("assistant", {"text": HUB}), 1),
        (NewEvent("tool_summary", {"call": "1", "name": "t", "outcome": "error", "output": HUB}), 1),
        (NewEvent("tool_summary", {"call": "1", "name": HUB, "outcome": "ok", "output": ""}), 0),
        (NewEvent("tool_summary", {"call": "1", "name": "t", "outcome": "ok", "output": None}), 0),
        (NewEvent("tool_summary", {"call": "1", "name": "t", "outcome": "ok", "output": [{"x": HUB}]}), 1),
        (NewEvent("assistant", {"text": HUB}, replayed=True), 0),
        (
            NewEvent(
                "tool_summary", {"call": "1", "name": "t", "outcome": "ok", "output": HUB}, replayed=True
            ),
            0,
        ),
        (NewEvent("user", {"text": HUB}), 0),
        (NewEvent("thinking", {"text": HUB}), 0),
        (NewEvent("tool_progress", {"call": "1", "name": "t", "input": HUB}), 0),
        (NewEvent("permission", {"call": "1", "input": HUB}), 0),
        (NewEvent("notice", {"text": HUB, "code": "x"}), 0),
        (NewEvent("error", {"text": HUB, "code": "x"}), 0),
    ],
)
def test_only_what_was_said_or_printed_now(event: NewEvent, count: int) -> None:
    assert len(pull_requests_in(event)) == count


word = st.text("aZ09._-", min_size=1, max_size=6).map(lambda text: f"a{text}b")
places = st.builds(
    lambda name, port: name + port,
    st.sampled_from(["github.com", "git.example.org", "localhost", "10.0.0.1"]),
    st.sampled_from(["", ":3000", ":8443"]),
)
FORGES: list[Forge] = ["github", "gitlab", "forgejo"]
numbers = st.integers(1, 2**31)


@st.composite
def requests(draw: st.DrawFn) -> PullRequest:
    forge: Forge = draw(st.sampled_from(FORGES))
    host, number = draw(places), draw(numbers)
    if forge == "forgejo" and host == "github.com":
        host = "forge.example.org"
    parts = draw(st.lists(word, min_size=2, max_size=5 if forge == "gitlab" else 2))
    if forge == "gitlab" and len(parts) >= 3 and parts[2] in ("pull", "pulls"):
        parts[2] = "x"
    middle = {"github": "pull", "gitlab": "-/merge_requests", "forgejo": "pulls"}[forge]
    project = "/".join(parts)
    return PullRequest(f"https://{host}/{project}/{middle}/{number}", forge, host, project, number)


fronts = st.sampled_from(["", " ", "(", "[x](", "<", "**", "_", "`", '"', "see: ", "\n", "「"])
backs = st.sampled_from(
    ["", " ", ")", ").", ">", "**", "_", "`", '"', ", ", ".", "/files", "?a=b", "#c", "\n", "」"]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(fronts, requests(), backs), max_size=3))
def test_every_pull_request_is_found_once_in_order(pieces: list[tuple[str, PullRequest, str]]) -> None:
    text = " and ".join(f"{front}{link.url}{back}" for front, link, back in pieces)
    wanted: dict[tuple[str, str, int], PullRequest] = {}
    for _, link, _ in pieces:  # one project has one forge: /pull/1 and /pulls/1 of it are the same
        wanted.setdefault((link.host, link.project, link.number), link)
    assert pull_requests_in(NewEvent("assistant", {"text": text})) == list(wanted.values())


@settings(deadline=None, max_examples=60)
@given(
    st.text(st.sampled_from("htps:/.-o1 pulmergqst_@#?[](%~"), max_size=80).map(
        lambda t: f"https://h/o/r/pull/{t}"
    )
)
def test_any_text_is_taken(text: str) -> None:
    for link in pull_requests_in(NewEvent("assistant", {"text": text})):
        assert said(link.url) == [link.url]


@pytest.mark.parametrize(
    "text",
    [
        "https://a/" * 100_000 + "/pull",
        "https://" + "a/" * 500_000 + "-/merge_requests/x",
        "https://" + "a" * 1_000_000 + "/pull",
        "https://" + "a:" * 500_000 + "@/pull",
        "https://a.b" * 100_000 + "/pull",
        "https://" + "-/" * 500_000 + "/pull",
    ],
)
def test_a_long_text_costs_little(text: str) -> None:
    began = time.process_time()
    assert said(text) == []
    assert time.process_time() - began < 1


def test_one_event_gives_so_many_and_no_more() -> None:
    assert len(said(" ".join(f"https://h/o/r/pull/{n + 1}" for n in range(MOST + 20)))) == MOST
