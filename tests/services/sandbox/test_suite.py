"""What every sandbox must do: each way out is tried for real."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bascule.services.sandbox import Boundary, Bubblewrap, Command, Mode, Open, SandboxError
from tests.services.sandbox.conftest import Machine

CONFINED: list[Mode] = ["read-only", "workspace-write"]


def test_it_works_here(machine: Machine) -> None:
    assert machine.sandbox.fault() is None


@pytest.mark.parametrize("mode", CONFINED)
def test_commands_run_and_tell_how_they_ended(machine: Machine, mode: Mode) -> None:
    (machine.workspace / "a.txt").write_text("content")
    ended = machine.sh("pwd; cat a.txt; exit 3", mode)
    assert (ended.stdout, ended.returncode) == (f"{machine.workspace}\ncontent", 3)


# --- files


@pytest.mark.requirement("sandbox:files:workspace")
def test_the_workspace_is_written_to_where_the_mode_says_so(machine: Machine) -> None:
    assert machine.sh("echo new > a.txt && mkdir b && mv a.txt b/").returncode == 0
    assert (machine.workspace / "b" / "a.txt").read_text() == "new\n"
    refused = machine.sh("echo more > c.txt", "read-only")
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stdout
    assert not (machine.workspace / "c.txt").exists()


ESCAPES = {
    "an absolute path": "echo x > {beside}/new",
    "the way up": "echo x > ../beside/new",
    "a symlink made here": "ln -s {beside} link && echo x > link/new",
    "a symlink to a file": "ln -s {beside}/old link && echo x > link",
    "a symlink that was there": "echo x > planted/new",
    "a hard link": "ln {beside}/old hard && echo x > hard",
    "moving over it": "echo x > y && mv y {beside}/old",
    "removing": "rm -f {beside}/old",
    "other permissions": "chmod 777 {beside}/old && chmod 777 {beside}",
    "mounting": "mount --bind {beside} . ; mount -o remount,rw / ; echo x > {beside}/new",
    "a namespace of its own": "unshare -rm sh -c 'mount -o remount,rw,bind {beside}; echo x > {beside}/new'",
    "the root of another process": "echo x > /proc/1/root{beside}/new",
    "the folder of another process": "echo x > /proc/1/cwd{beside}/new",
    "a device": "mknod disk b 254 0 && cat disk",
    "the system": "echo x > /etc/bascule-was-here; echo x > /usr/bin/bascule-was-here; echo x > /bascule",
    "the home folder": "echo x > ~/.bashrc-bascule",
}


@pytest.mark.parametrize("mode", CONFINED)
@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
@pytest.mark.requirement("sandbox:files:outside")
def test_nothing_outside_is_written_to(machine: Machine, mode: Mode, script: str) -> None:
    old = machine.beside / "old"
    old.write_text("old")
    old.chmod(0o644)
    (machine.workspace / "planted").symlink_to(machine.beside)
    machine.sh(script.format(beside=machine.beside), mode)
    assert [path.name for path in machine.beside.iterdir()] == ["old"]
    assert (old.read_text(), old.stat().st_mode & 0o777) == ("old", 0o644)
    written = ["/etc/bascule-was-here", "/usr/bin/bascule-was-here", "/bascule"]
    assert not any(Path(path).exists() for path in [*written, Path.home() / ".bashrc-bascule"])


@pytest.mark.requirement("sandbox:files:protected")
def test_what_is_run_outside_later_stays_as_it_is(machine: Machine) -> None:
    own = machine.workspace / "home" / "agent"
    own.mkdir(parents=True)
    (machine.workspace / ".git").mkdir()
    boundary = Boundary(
        mode="workspace-write",
        workspace=machine.workspace,
        protected=(own,),
        temp=machine.temp,
    )
    script = "echo x > .git/hook; echo x > home/agent/rules; rm -rf .git home; mv home other; echo x > home/y"
    command = Command(argv=["sh", "-c", script], cwd=machine.workspace, env=machine.env)
    prepared = machine.sandbox.prepare(command, boundary)
    subprocess.run(
        prepared.argv,
        pass_fds=prepared.fds,
        env=dict(prepared.env),
        check=True,
        capture_output=True,
    )
    prepared.release()
    for folder in (own, machine.workspace / ".git"):
        assert list(folder.iterdir()) == []
    assert (machine.workspace / "home" / "y").exists()
    assert not (machine.workspace / "other").exists()


@pytest.mark.requirement("sandbox:files:temp")
def test_temporary_files_are_its_own(machine: Machine) -> None:
    script = "echo x > /tmp/a && echo $TMPDIR && mktemp && ls /tmp"
    ended = machine.sh(script)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("/tmp\n/tmp/")
    assert (machine.temp / "a").read_text() == "x\n"
    assert not Path("/tmp/a").exists()
    boundary = machine.boundary("workspace-write")
    assert boundary.outside(Path("/tmp/a")) == machine.temp / "a"
    assert boundary.outside(machine.workspace / "a") == machine.workspace / "a"
    assert machine.sh("echo x > /tmp/b", "read-only").returncode != 0


def test_further_folders_are_written_to(machine: Machine) -> None:
    boundary = Boundary(
        mode="workspace-write",
        workspace=machine.workspace,
        roots=(machine.beside,),
        temp=machine.temp,
    )
    command = Command(
        argv=["sh", "-c", f"echo x > {machine.beside}/new"], cwd=machine.workspace, env=machine.env
    )
    prepared = machine.sandbox.prepare(command, boundary)
    subprocess.run(prepared.argv, pass_fds=prepared.fds, env=dict(prepared.env), check=True)
    prepared.release()
    assert (machine.beside / "new").exists()


def test_a_workspace_behind_a_symlink_is_that_workspace(machine: Machine) -> None:
    link = machine.folder / "link"
    link.symlink_to(machine.workspace)
    boundary = Boundary(mode="workspace-write", workspace=link, temp=machine.temp)
    command = Command(argv=["sh", "-c", "echo x > new"], cwd=link, env=machine.env)
    prepared = machine.sandbox.prepare(command, boundary)
    subprocess.run(prepared.argv, pass_fds=prepared.fds, env=dict(prepared.env), check=True)
    prepared.release()
    assert (machine.workspace / "new").exists()


# --- the network


@pytest.mark.parametrize("mode", CONFINED)
@pytest.mark.requirement("sandbox:network")
def test_nobody_outside_can_be_reached(machine: Machine, mode: Mode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('in')"
        assert "in\n" not in machine.python(script, mode).stdout
        assert machine.python(script, mode, network=True).stdout == "in\n"
    away = "import socket; socket.create_connection(('1.1.1.1', 53), 2)"
    assert "unreachable" in machine.python(away, mode).stdout


@pytest.mark.requirement("sandbox:network:loopback")
def test_what_runs_inside_reaches_itself(machine: Machine) -> None:
    script = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), 2)
server.accept()[0].send(b"hello")
print(client.recv(5).decode())
"""
    assert machine.python(script).stdout == "hello\n"


@pytest.mark.parametrize("kind", ["path", "abstract"])
@pytest.mark.requirement("sandbox:network:sockets")
def test_sockets_of_services_outside_are_hidden(machine: Machine, kind: str) -> None:
    path = machine.beside / "service"
    address = f"\0{path}" if kind == "abstract" else str(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        script = (
            f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({address!r}); print('in')"
        )
        assert "in\n" not in machine.python(script).stdout


def test_a_socket_of_the_workspace_s_own_can_be_used(machine: Machine) -> None:
    script = """
import socket
server = socket.socket(socket.AF_UNIX); server.bind("own"); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect("own"); print("in")
"""
    assert machine.python(script).stdout == "in\n"


@pytest.mark.parametrize("family", ["AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"])
def test_no_sockets_of_other_families(machine: Machine, family: str) -> None:
    kind = "SOCK_SEQPACKET" if family == "AF_ALG" else "SOCK_STREAM"
    script = f"import socket; socket.socket(socket.{family}, socket.{kind}); print('open')"
    for network in (False, True):
        ended = machine.python(script, network=network)
        assert "open" not in ended.stdout
        assert ended.returncode != 0


# --- processes


@pytest.mark.requirement("sandbox:processes")
def test_other_processes_are_neither_seen_nor_touched(machine: Machine) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        seen = machine.sh("ls /proc | grep -c '^[0-9]'; cat /proc/*/cmdline | tr '\\0' ' '")
        assert int(seen.stdout.split("\n")[0]) < 10
        assert "sleep 60" not in seen.stdout
        machine.sh(f"kill -9 {other.pid}; kill -9 {os.getpid()}; kill -9 -1; true")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.requirement("sandbox:processes:secrets")
def test_the_agent_s_own_environment_is_not_to_be_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASCULE_TEST_SECRET", "s3cret-of-the-agent")
    machine.env = {"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/run/agent"}
    shown = machine.sh("env; cat /proc/*/environ | tr '\\0' '\\n'").stdout
    assert "s3cret" not in shown
    assert "SSH_AUTH_SOCK" not in shown


@pytest.mark.requirement("sandbox:processes:end")
def test_all_ends_with_the_first_process(machine: Machine) -> None:
    script = "(trap '' TERM HUP; setsid sh -c 'sleep 3; echo x > late') & sleep 0.2; echo ended"
    assert machine.sh(script).stdout == "ended\n"
    done = threading.Event()
    done.wait(0.1)
    assert not any("echo x > late" in command for command in _commands())


def test_all_ends_when_the_sandbox_is_killed(machine: Machine) -> None:
    script = "trap '' TERM; setsid sh -c 'echo ready; sleep 77.5' & sleep 77.5"
    command = Command(argv=["sh", "-c", script], cwd=machine.workspace, env=machine.env)
    prepared = machine.sandbox.prepare(command, machine.boundary("workspace-write"))
    process = subprocess.Popen(
        prepared.argv, pass_fds=prepared.fds, env=dict(prepared.env), stdout=subprocess.PIPE
    )
    prepared.release()
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.read()  # ends when the last of them is gone
    process.stdout.close()
    assert not any("sleep 77.5" in command for command in _commands())


def _commands() -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


CALLS = {
    "ptrace": "libc.ptrace(16, os.getppid(), 0, 0)",
    "reading the memory of others": "libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)",
    "a new user namespace": "libc.unshare(0x10000000)",
    "io_uring": "libc.syscall(425, 1, 0)",
    "bpf": "libc.syscall(321 if os.uname().machine == 'x86_64' else 280, 0, 0, 0)",
    "keys": "libc.syscall(250 if os.uname().machine == 'x86_64' else 219, 0, 0, 0)",
    "a mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, 0)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.requirement("sandbox:calls")
def test_system_calls_that_no_build_needs_are_refused(machine: Machine, call: str) -> None:
    script = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
result = {call}
print(result, ctypes.get_errno())
"""
    assert machine.python(script).stdout == "-1 1\n"


def test_nobody_types_into_the_terminal(machine: Machine) -> None:
    script = """
import fcntl, os
leader, follower = os.openpty()
for number in (0x5412, 0x541C):
    try: fcntl.ioctl(follower, number, b"x")
    except OSError as e: print(e.errno)
    else: print("typed")
"""
    assert machine.python(script).stdout == "1\n1\n"


def test_threads_and_children_work(machine: Machine) -> None:
    script = """
import subprocess, sys, threading, multiprocessing
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True, text=True).stdout, end="")
with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-1, -2]))
"""
    assert machine.python(script).stdout == "thread\nchild\n[1, 2]\n"


def test_names_can_be_looked_up_where_the_network_is_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = machine.folder / "resolv.conf"
    link.symlink_to("/run/resolve/stub.conf")
    monkeypatch.setattr("bascule.services.sandbox.bubblewrap.RESOLVER", link)
    command = Command(argv=["true"], cwd=machine.workspace, env=machine.env)
    for network in (False, True):
        prepared = machine.sandbox.prepare(command, machine.boundary("read-only", network=network))
        prepared.release()
        assert ("/run/resolve/stub.conf" in prepared.argv) == network


# --- where there is none


def test_a_missing_program_is_told_and_never_passed_over(tmp_path: Path) -> None:
    sandbox = Bubblewrap("bwrap-that-is-not-there")
    assert "not installed" in (sandbox.fault() or "")
    boundary = Boundary(mode="workspace-write", workspace=tmp_path, temp=tmp_path)
    with pytest.raises(SandboxError, match="not installed"):
        sandbox.prepare(Command(argv=["true"], cwd=tmp_path, env={}), boundary)


def test_a_program_that_cannot_make_one_is_told(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create a new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    assert "No permissions" in (Bubblewrap(str(program)).fault() or "")


@pytest.mark.requirement("sandbox:never_silently_open")
def test_without_a_sandbox_there_is_full_access_only_when_asked_for(tmp_path: Path) -> None:
    command = Command(argv=[sys.executable], cwd=tmp_path, env={"A": "b"})
    for mode in CONFINED:
        boundary = Boundary(mode=mode, workspace=tmp_path, temp=tmp_path)
        with pytest.raises(SandboxError):
            Open().prepare(command, boundary)
    full = Boundary(mode="danger-full-access", workspace=tmp_path, temp=tmp_path)
    for sandbox in (Open(), Bubblewrap()):
        prepared = sandbox.prepare(command, full)
        assert (prepared.argv, prepared.env, prepared.fds) == ([sys.executable], {"A": "b"}, ())
