# One image for every process of a scaled-out service (docs/how-to/deploy.md).  It holds no secret.
FROM python:3.11-slim-bookworm AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/runtime.txt /build/runtime.txt
RUN python -m venv /venv
RUN /venv/bin/python -m pip install --quiet --no-deps --require-hashes -r /build/runtime.txt

FROM python:3.11-slim-bookworm
RUN groupadd --system --gid 10001 loomsvc
RUN useradd --system --uid 10001 --gid loomsvc --no-create-home --shell /usr/sbin/nologin loomsvc
COPY --from=packages /venv /venv
COPY manage.py /app/manage.py
COPY loomsvc /app/loomsvc
COPY apps /app/apps
COPY templates /app/templates
RUN ln -s /app/manage.py /usr/local/bin/loomsvc
# A volume begins as what is here: with a place that the account may write.
RUN mkdir -p /mirrors && chmod 1777 /mirrors
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=loomsvc.settings.production \
    LOOMSVC_DATA=/tmp/loomsvc
RUN python -m compileall -q /app
WORKDIR /app
USER loomsvc
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:8000/health', headers={'Host': os.environ['LOOMSVC_ALLOWED_HOSTS'].split(',')[0].strip()}), timeout=4)"]
CMD ["uvicorn", "loomsvc.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--workers", "2", "--http", "h11", "--no-access-log", "--no-proxy-headers", "--no-server-header", "--timeout-graceful-shutdown", "20"]
