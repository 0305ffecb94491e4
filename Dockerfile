# cronce as process 1 of a container: no shell around it, so that TERM reaches it and it reaps what is left to it.
#   docker build -t cronce . && docker run --rm cronce next '0 9 * * *' --tz Europe/Berlin
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --constraint constraints.txt '.[all]' \
    && /venv/bin/python -m compileall -q /venv/lib

FROM python:${PYTHON}-slim
# By number: only then can Kubernetes tell that it is not root.
RUN groupadd --gid 10001 cronce \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin cronce
COPY --from=build /venv /venv
# No TZ: the container's clock shows UTC, and a schedule says its own zone.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["cronce"]
CMD ["--help"]
