# The gate: `docker build -t extauthz .`. With `--target stand-ins`, what docker-compose.yml runs beside it.
# docs/internals/image.md says what is in it. Python is Debian 13's in the last stages, and of the same minor version in the first.
FROM python:3.13-trixie AS packages
WORKDIR /src
# What it needs first, which changes seldom; then the gate itself. What is built of the empty module would be taken for
# newer than the real one.
COPY LICENSE README.md constraints.txt pyproject.toml ./
RUN mkdir extauthz /keys && touch extauthz/__init__.py \
    && pip install --no-cache-dir --no-compile --constraint constraints.txt --prefix /packages . \
    && rm -r build
COPY extauthz extauthz
COPY tools/release/slim.py ./
RUN pip install --no-cache-dir --no-compile --no-deps --force-reinstall --prefix /packages . \
    && python slim.py /packages/lib/python3.13/site-packages \
    && sed -i '1s|.*|#!/usr/bin/python3|' /packages/bin/extauthz

FROM gcr.io/distroless/python3-debian13:nonroot AS installed
COPY --from=packages /packages/lib/python3.13/site-packages /usr/local/lib/python3.13/dist-packages
COPY --from=packages /packages/bin/extauthz /usr/local/bin/extauthz
ENV PYTHONUNBUFFERED=1
USER 65532:65532

FROM installed AS stand-ins
COPY --from=registry.k8s.io/kubectl:v1.36.3 /bin/kubectl /usr/local/bin/kubectl
# A volume starts as what it is mounted on, with its owner.
COPY --from=packages --chown=65532:65532 /keys /keys
COPY tests/support /usr/local/lib/python3.13/dist-packages/tests/support
ENTRYPOINT ["python3", "-m", "tests.support.compose"]

FROM installed AS gate
EXPOSE 9191 9192
# It lives. Whether it is ready to decide is at /readyz.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["python3", "-c", "import urllib.request as http; http.urlopen('http://127.0.0.1:9192/healthz', timeout=4)"]
ENTRYPOINT ["extauthz"]
CMD ["serve"]
