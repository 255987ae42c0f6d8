"""The doctor's page: our own home, and other programs' installs."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Window, shoot
from tests.browser.hub_process import HubProcess
from tests.support.hapi_cases import copied, files
from tests.unit.peers.hermes.test_doctor import FIXTURES as HERMES


def test_a_hapi_database(hub: HubProcess, window: Window, tmp_path: Path) -> None:
    path = copied("edited-token-removed.db", tmp_path / "hapi")
    before = files(path.parent)
    page = window.open(hub, "/doctor")
    page.get_by_label("Look at").select_option("hapi")
    page.get_by_label("Path of it").fill(str(path))
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.locator(".findings").first).to_contain_text("token_missing")
    expect(page.locator(".findings li.unsafe").first).to_be_visible()
    assert files(path.parent) == before
    expect(page.locator(".plan li")).not_to_have_count(0)
    planned = page.locator(".plan li").count()
    shoot(page, "doctor-hapi")
    page.get_by_role("button", name="Apply the plan").click()
    receipt = page.get_by_label("Receipt")
    expect(receipt.locator(".done li")).to_have_count(planned)
    expect(receipt).to_contain_text("token_missing")
    expect(receipt).to_contain_text("holdfast doctor --undo r")
    expect(receipt).not_to_contain_text("undefined")
    receipt.locator("summary").click()
    expect(receipt).to_contain_text(str(path))
    assert files(path.parent) != before
    expect(page.locator(".findings")).to_be_visible()  # it was looked at again: what no plan repairs is left
    expect(page.get_by_role("button", name="Apply the plan")).to_have_count(0)
    shoot(page, "doctor-hapi-applied")


def test_a_hermes_home_on_a_phone(hub: HubProcess, window: Window, tmp_path: Path) -> None:
    home = tmp_path / "hermes"
    shutil.copytree(HERMES / "orphan_bak_with_state_row" / "hermes-home", home)
    page = window.open(hub, "/doctor", size=PHONE)
    page.get_by_label("Look at").select_option("hermes")
    page.get_by_label("Path of it").fill(str(home))
    page.keyboard.press("Enter")
    expect(page.locator(".findings")).to_contain_text("orphan_backup")
    shoot(page, "phone-doctor-hermes")
    page.get_by_role("button", name="Apply the plan").click()
    receipt = page.get_by_label("Receipt")
    expect(receipt).to_contain_text("orphan_backup")
    expect(receipt).to_contain_text("holdfast doctor --undo r")
    assert (home / "webui" / "sessions" / "orph0001.json").exists()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    shoot(page, "phone-doctor-applied")


def test_a_place_where_nothing_is(hub: HubProcess, window: Window, tmp_path: Path) -> None:
    page = window.open(hub, "/doctor")
    page.get_by_label("Look at").select_option("hapi")
    page.get_by_label("Path of it").fill(str(tmp_path / "nothing"))
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.locator(".note.bad")).to_contain_text("nothing")
