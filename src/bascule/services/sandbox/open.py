"""No sandbox at all, for `danger-full-access`."""

from bascule.services.sandbox.port import Boundary, Command, Prepared, SandboxError


class Open:
    """Runs commands as they are. It cannot keep a boundary and says so, so that nothing has full access
    because a sandbox was missing."""

    name = "none"

    def fault(self) -> str | None:
        return None

    def prepare(self, command: Command, boundary: Boundary) -> Prepared:
        if boundary.mode != "danger-full-access":
            raise SandboxError(f"without a sandbox there is no {boundary.mode}")
        return Prepared(argv=command.argv, cwd=command.cwd, env=command.env)
