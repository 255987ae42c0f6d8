# A hub in a container. Agents that it runs are in the container, too: build an image on top of this one
# that installs them (docs/install.md). Stopping the container ends the agents.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY src ./src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[postgres]"

FROM python:3.13-slim-bookworm
RUN apt-get update \
    && apt-get install --no-install-recommends --yes git tini \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels "holdfast-hub[postgres]" \
    && rm -rf /wheels \
    && useradd --create-home --uid 1000 holdfast \
    && install --directory --owner holdfast --group holdfast --mode 700 /data /work
ENV HOLDFAST_HOME=/data
USER holdfast
WORKDIR /work
VOLUME ["/data"]
EXPOSE 8420
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8420/healthz', timeout=5)"]
# tini is process 1: it reaps the agents' processes, which a hub does not.
ENTRYPOINT ["tini", "--", "holdfast"]
CMD ["up", "--host", "0.0.0.0", "--port", "8420"]
