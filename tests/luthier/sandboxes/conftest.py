import pytest

from luthier.errors import SandboxError
from luthier.sandbox import Sandbox
from luthier.sandboxes import open_sandbox


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request) -> Sandbox:
    """Each fence that holds on this machine."""
    try:
        return open_sandbox(request.param)
    except SandboxError as error:
        pytest.skip(f"{request.param} is not usable here: {error.problem}")
