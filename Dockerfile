# The GPU image. torch's wheels bring the CUDA libraries; the base brings what the driver's hooks look for.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS base
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/reelserve
WORKDIR /src
# The dependencies first: a change of the code alone does not download them again.
COPY pyproject.toml requirements.lock ./
RUN python3 -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
        print(*project["dependencies"], *project["optional-dependencies"]["films"], sep="\n")' > dependencies.txt \
    && /opt/reelserve/bin/pip install --no-cache-dir -c requirements.lock -r dependencies.txt
COPY README.md LICENSE ./
COPY encoding encoding
COPY pipelines pipelines
COPY server server
RUN /opt/reelserve/bin/pip install --no-cache-dir --no-deps .

FROM base
RUN useradd --system --uid 10001 --no-create-home --home-dir /data reelserve \
    && install --directory --owner reelserve /data
COPY --from=build /opt/reelserve /opt/reelserve
COPY configs /app/configs
# configs/tiny.yaml names its models relative to itself.
COPY pipelines/tiny_trained /app/pipelines/tiny_trained
COPY pipelines/tiny_wan /app/pipelines/tiny_wan
COPY pipelines/tiny_h3 /app/pipelines/tiny_h3
# As settings, not as arguments: they hold whatever command the container is given.
# All addresses of the container: the server starts only with API keys, or told that it needs none.
ENV PATH=/opt/reelserve/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/data/huggingface \
    REELSERVE_DATA_DIR=/data \
    REELSERVE_SERVER__HOST=0.0.0.0 \
    REELSERVE_SERVER__PORT=8000
WORKDIR /app
USER 10001
VOLUME /data
EXPOSE 8000
# Loading a large checkpoint takes minutes; until then the container is starting, not ill.
HEALTHCHECK --interval=30s --timeout=10s --start-period=15m --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=8)"]
ENTRYPOINT ["reelserve"]
CMD ["serve", "--config", "configs/tiny.yaml"]
