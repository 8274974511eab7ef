# The gate: `docker build -t extauthz .`. With `--target stand-ins`, what docker-compose.yml runs beside it.
FROM python:3.11-slim AS packages
WORKDIR /src
# What it needs first, which changes seldom; then the gate itself.
COPY LICENSE README.md constraints.txt pyproject.toml ./
RUN mkdir extauthz /keys && touch extauthz/__init__.py \
    && pip install --no-cache-dir --constraint constraints.txt --prefix /packages ".[cel]" \
    && pip install --no-cache-dir --constraint constraints.txt --prefix /more cryptography
COPY extauthz extauthz
RUN pip install --no-cache-dir --no-deps --force-reinstall --prefix /packages .

FROM python:3.11-slim AS installed
COPY --from=packages /packages /usr/local
ENV PYTHONUNBUFFERED=1
USER 65532:65532

FROM installed AS stand-ins
COPY --from=packages /more /usr/local
COPY --from=registry.k8s.io/kubectl:v1.36.3 /bin/kubectl /usr/local/bin/kubectl
# A volume starts as what it is mounted on, with its owner.
COPY --from=packages --chown=65532:65532 /keys /keys
ENTRYPOINT ["python", "-m", "extauthz.testing.compose"]

FROM installed AS gate
EXPOSE 9191 9192
# It lives. Whether it is ready to decide is at /readyz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "import urllib.request as http; http.urlopen('http://127.0.0.1:9192/healthz', timeout=4)"]
ENTRYPOINT ["extauthz"]
CMD ["serve"]
