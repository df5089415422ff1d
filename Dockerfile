# AgentTrace with its console, as an unprivileged user. Build: docker build -t agenttrace .
FROM node:24-slim AS page
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY web ./
RUN npm run build

FROM python:3.13-slim AS package
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/agenttrace && /opt/agenttrace/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
# Without web/ the build uses the existing page.
COPY --from=page /src/src/agenttrace/console/dist ./src/agenttrace/console/dist
RUN /opt/agenttrace/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 agenttrace && install -d -m 700 -o agenttrace /data
COPY --from=package /opt/agenttrace /opt/agenttrace
ENV PATH=/opt/agenttrace/bin:$PATH \
    AGENTTRACE_HOME=/data \
    AGENTTRACE_SERVE_HOST=0.0.0.0
USER agenttrace
VOLUME /data
EXPOSE 8317
HEALTHCHECK CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8317/healthz', timeout=3)"]
ENTRYPOINT ["agenttrace"]
CMD ["up", "--no-browser"]
