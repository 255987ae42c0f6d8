"""Follow the log, queue notifications in the outbox, and send what is due; work never waits for it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable

from holdfast import errors, timestamps
from holdfast.node import Node
from holdfast.notify import channels, occasions
from holdfast.notify.channels import NotSent
from holdfast.notify.settings import Channel, NotifySettings
from holdfast.store.store import Store
from holdfast.store.types import ChangeFeedPage, Notification

log = logging.getLogger(__name__)

TRIES = 12  # of one notification, over about half a day
FIRST_S, SELDOM_S = 30.0, 3600.0  # between them
LOOK_S = 60.0  # between looks at the outbox, if nothing is due earlier
SAVE_EVERY = 2000  # records between saves of the place in the log, where none of them was worth telling
RETRY_S = 30.0  # after a failure of the store, such as a full disk
KEPT_S = 30 * 86400.0  # ended notifications are kept


class NotifyService:
    """The notifications of one hub."""

    def __init__(self, store: Store, node: Node, chosen: NotifySettings):
        self._store = store
        self._node = node
        self._chosen = chosen
        self._channels = {channel.name: channel for channel in chosen.channels}
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Collect and deliver, without end."""
        await asyncio.gather(_keep_on(self.collect), _keep_on(self.deliver))

    async def collect(self) -> None:
        """Queue what is worth telling, without end; the outbox and our place in the log move together."""
        place = await self._store.notify_cursor(self._node.id) or await self._store.cursor()
        await self._store.queue_notifications(self._node.id, place, [])
        while True:
            place = await self._collect_from(place)

    async def _collect_from(self, place: str) -> str:
        """Until the log is another one; the place to go on from."""
        unsaved = 0
        async for page in self._store.follow(place):
            if page.gap:  # the database was rebuilt: what it holds is not news
                place = await self._store.cursor()
                await self._store.queue_notifications(self._node.id, place, [])
                return place
            found = await self._notifications(page)
            unsaved += len(page.changes)
            if found or unsaved >= SAVE_EVERY:
                await self._store.queue_notifications(self._node.id, page.cursor, found)
                unsaved = 0
            if found:
                self._news.set()
            place = page.cursor
        return place

    async def _notifications(self, page: ChangeFeedPage) -> list[Notification]:
        queued = []
        now = time.time()
        for change in page.changes:
            found = occasions.occasion(change.session, change.event)
            if found is None:
                continue
            try:
                session = await self._store.session(change.session)
            except errors.NotFound:
                continue
            if not self._node.owns(session.host):  # the hub of its own node tells
                continue
            for channel in self._chosen.channels:
                one = occasions.notification(
                    found, session, channel, self._node.id, self._chosen.page_url, now
                )
                if one is not None:
                    queued.append(one)
        return queued

    async def deliver(self) -> None:
        """Send what is due, without end."""
        while True:
            self._news.clear()
            now = time.time()
            due = await self._store.due_notifications(self._node.id, timestamps.stamp(now))
            by_channel: dict[str, list[Notification]] = {}
            for one in due:
                by_channel.setdefault(one.channel, []).append(one)
            await asyncio.gather(*map(self._deliver_in_order, by_channel.values()))
            if due:
                continue
            await self._store.trim_notifications(timestamps.stamp(now - KEPT_S))
            following = await self._store.next_notification(self._node.id)
            wait = LOOK_S if following is None else min(LOOK_S, timestamps.parse(following) - time.time())
            try:
                async with asyncio.timeout(max(0.05, wait)):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _deliver_in_order(self, due: list[Notification]) -> None:
        """Those of one channel; a channel that hangs holds up no other."""
        for one in due:
            await self._deliver_one(one)

    async def _deliver_one(self, one: Notification) -> None:
        channel = self._channels.get(one.channel)
        if channel is None:
            await self._end(one, "cancelled", "the channel is not in config.toml any more")
            return
        if not await self._is_still_so(one):
            await self._end(one, "cancelled", "it was answered, or is over")
            return
        now = time.time()
        loud = occasions.after_quiet(channel.quiet, now)
        if loud > now:
            await self._store.update_notification(one._replace(due_at=timestamps.stamp(loud)))
            return
        try:
            await asyncio.to_thread(channels.send, channel, one.id, json.loads(one.body))
        except NotSent as problem:
            await self._again(one, channel, str(problem), now)
            return
        await self._end(one, "sent", None)

    async def _again(self, one: Notification, channel: Channel, problem: str, now: float) -> None:
        """Try it later, or give it up."""
        log.warning("notification to %s was not sent: %s", channel.name, problem)
        tried = one._replace(tries=one.tries + 1, problem=problem[:500])
        if tried.tries >= TRIES:
            await self._end(tried, "failed", tried.problem)
            return
        due = now + min(SELDOM_S, FIRST_S * 2.0**one.tries)
        await self._store.update_notification(tried._replace(due_at=timestamps.stamp(due)))

    async def _end(self, one: Notification, status: str, problem: str | None) -> None:
        ended = one._replace(status=status, problem=problem, ended_at=timestamps.now())
        await self._store.update_notification(ended)

    async def _is_still_so(self, one: Notification) -> bool:
        """Whether a person is still needed; what has ended stays news."""
        if one.kind == "asks":
            wanted = json.loads(one.body)["ask"]
            return any(
                asked.task == one.task and wanted in (asked.body.get("ask"), asked.body.get("call"))
                for asked in await self._store.asked()
            )
        if one.kind in ("waits", "login") and one.task is not None:
            try:
                return (await self._store.task(one.task)).status == "waiting"
            except errors.NotFound:
                return False
        return True


async def _keep_on(work: Callable[[], Awaitable[None]]) -> None:
    """Start the work again after a failure: a hub does not stop its agents because nobody can be told."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("notifications failed; they are tried again in %g s", RETRY_S)
        await asyncio.sleep(RETRY_S)
