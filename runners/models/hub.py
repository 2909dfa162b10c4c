"""A model as one file of a hub repository, over HTTPS, with resume."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import httpx

from runners.models.catalog import HubFile
from runners.models.fetch_error import FetchError
from runners.models.progress import Meter, Reporter

ENDPOINT_VARIABLE = "HF_ENDPOINT"
_DEFAULT_ENDPOINT = "https://huggingface.co"
_TIMEOUT = httpx.Timeout(30.0, read=60.0)
_TRIES = 5
_CONTENT_RANGE = re.compile(r"^bytes (\d+)-\d+/(\d+|\*)$")


def address(source: HubFile) -> str:
    """Where the file is, under $HF_ENDPOINT or the hub's public address."""
    endpoint = os.environ.get(ENDPOINT_VARIABLE) or _DEFAULT_ENDPOINT
    return f"{endpoint.rstrip('/')}/{source.repo}/resolve/{source.revision or 'main'}/{source.file}"


def download(name: str, source: HubFile, size: int, target: Path, report: Reporter) -> None:
    """Brings the file to `target`, going on after the bytes that are there already; afterwards it has `size` bytes.

    A connection that breaks is taken up again where it broke, until five tries in a row bring nothing new. What the
    bytes are is not checked here. FetchError where the hub cannot be reached, refuses, or has a file of another size.
    """
    url = address(source)
    with httpx.Client(follow_redirects=True, timeout=_TIMEOUT) as client, report.meter(name, size) as meter:
        most, idle = 0, 0
        while _length(target) != size:
            try:
                _get(client, url, target, size, meter)
            except httpx.HTTPError as error:
                have = _length(target)
                idle = 0 if have > most else idle + 1
                most = max(most, have)
                what = str(error) or type(error).__name__
                if idle == _TRIES or most == 0:
                    raise FetchError(f"{url}: {what}") from error
                report.line(f"{name}: the connection broke after {have} bytes ({what}); going on")
                time.sleep(idle)
        meter.to(size)


def _get(client: httpx.Client, url: str, target: Path, size: int, meter: Meter) -> None:
    have = _length(target)
    if have > size:
        target.unlink()
        have = 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            target.unlink(missing_ok=True)
            raise FetchError(f"{url}: expected {size} bytes, but there is nothing after the first {have}")
        if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise FetchError(f"{url}: the server answered {response.status_code} {response.reason_phrase}")
        start, total = _extent(response)
        if start not in (0, have):
            raise FetchError(f"{url}: the server sends from byte {start}, asked for from {have}")
        if total is not None and total != size:
            raise FetchError(f"{url}: the file has another size: expected {size} bytes, found {total}")
        have = start  # 0 from a server that knows no ranges: it begins anew
        with target.open("ab" if have else "wb") as file:
            for chunk in response.iter_raw():
                have += len(chunk)
                if have > size:
                    raise FetchError(f"{url}: the server sends more than the expected {size} bytes")
                file.write(chunk)
                meter.to(have)
            file.flush()
            os.fsync(file.fileno())
    if have < size:
        raise httpx.ReadError(f"the answer ended after {have} of {size} bytes")


def _extent(response: httpx.Response) -> tuple[int, int | None]:
    """The first byte that an answer sends, and the length of the whole file (None where it does not say)."""
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if found is None:
            raise FetchError(f"{response.url}: an answer 206 without a usable Content-Range")
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None and length.isdigit() else None


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
