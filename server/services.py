"""What the routes work with: made at start-up, found through the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from server.artifacts import JobFolders
from server.auth.keys import ApiKeys
from server.database import Database
from server.dispatcher import Dispatcher
from server.engine.base import Capabilities, Engine
from server.errors import NotReady
from server.idempotency import IdempotencyKeys
from server.ledger import Ledger
from server.metrics import Metrics
from server.parsing import RequestReader
from server.previews import Previews
from server.references import References
from server.remote import RemoteFiles
from server.retention import EndedJobs, Keeper, Limits
from server.settings import Settings
from server.store import Store
from server.webhooks.outbox import Outbox
from server.webhooks.sender import WebhookSender

START_RETRY_S = 10
"""What a client is told to wait while the models load."""


@dataclass(frozen=True, slots=True)
class Services:
    """One server's parts."""

    settings: Settings
    api_keys: ApiKeys
    engine: Engine
    database: Database
    store: Store
    keys: IdempotencyKeys
    webhooks: WebhookSender
    artifacts: JobFolders
    uploads: JobFolders
    previews: Previews
    reader: RequestReader
    references: References
    metrics: Metrics
    dispatcher: Dispatcher
    keeper: Keeper

    @property
    def capabilities(self) -> Capabilities:
        """What the workers can do.

        Raises:
            NotReady: none has been ready so far, or none ever will.
        """
        if self.engine.failure is not None:
            raise NotReady("no worker can be started; the server's log says why", START_RETRY_S)
        if self.engine.capabilities is None:
            raise NotReady("the models are being loaded", START_RETRY_S)
        return self.engine.capabilities


def make_services(settings: Settings, engine: Engine) -> Services:
    """Build the parts; nothing is opened or started yet."""
    database, metrics = Database(settings.store_url), Metrics(model.id for model in settings.models)
    outbox, ended = Outbox(database, settings.webhooks), EndedJobs()
    store, keys = Store(database, endings=(outbox, ended)), IdempotencyKeys(database)
    artifacts, uploads = JobFolders(settings.artifacts_dir), JobFolders(settings.uploads_dir)
    limits = Limits.of(settings)
    ledger = Ledger(
        store=store,
        artifacts=artifacts,
        uploads=uploads,
        limits=limits,
        min_free_bytes=settings.artifacts.min_free_bytes,
        metrics=metrics,
        slots=engine.slots,
    )
    dispatcher = Dispatcher(
        ledger=ledger,
        engine=engine,
        settings=settings.queue,
        max_pending_bytes=settings.encoding.max_pending_bytes,
    )
    keeper = Keeper(
        limits=limits,
        ended=ended,
        store=store,
        keys=keys,
        artifacts=artifacts,
        uploads=uploads,
        metrics=metrics,
    )
    metrics.watch_disk({"artifacts": lambda: artifacts.held_bytes, "uploads": lambda: uploads.held_bytes})
    metrics.watch_database(database)
    metrics.watch_queue(
        queued=lambda: len(dispatcher.roster.queue), running=lambda: len(dispatcher.roster.running())
    )
    metrics.watch_engine(engine)
    return Services(
        settings=settings,
        api_keys=ApiKeys(settings.auth.keys),
        engine=engine,
        database=database,
        store=store,
        keys=keys,
        webhooks=WebhookSender(settings.webhooks, outbox, metrics),
        artifacts=artifacts,
        uploads=uploads,
        previews=Previews(artifacts, settings.artifacts.preview_timeout_s),
        reader=RequestReader(settings.server, settings.spool_dir),
        references=References(
            settings.images, settings.media, settings.spool_dir, RemoteFiles(settings.urls)
        ),
        metrics=metrics,
        dispatcher=dispatcher,
        keeper=keeper,
    )


async def _from_request(request: Request) -> Services:  # FastAPI calls others in a thread
    return cast(Services, request.app.state.services)


ServicesDep = Annotated[Services, Depends(_from_request)]
