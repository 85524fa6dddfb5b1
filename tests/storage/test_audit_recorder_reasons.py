"""What the audit log says of a failure: what happened, and nothing of any file."""

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.core.calls import Call
from toolyard.core.errors import ToolyardError
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import read


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.py").write_text("password = 'hunter2'\npassword = 'hunter2'\n")
    return tmp_path


async def refusal(folder, tool, mode=PermissionMode.STRICT, **arguments) -> tuple[str, str]:
    """The message a call got, and the reason the log keeps."""
    options = YardOptions(str(folder / "ws"), Config(), mode=mode, state_home=str(folder / "state"))
    with Yard.open(options) as yard:
        with pytest.raises(ToolyardError) as caught:
            await yard.dispatch(Call(tool, arguments, "test"))
        (record,) = read(yard.state)
    return str(caught.value), record.event.reason


async def test_a_miss_quotes_the_file_to_the_model_and_not_to_the_log(workspace):
    edit = {"file_path": "a.py", "old_string": "password = 'hunter3'", "new_string": "x"}
    message, reason = await refusal(workspace, "Edit", **edit)
    assert ("hunter2" in message, reason) == (True, "old_string was not found in the file.")


async def test_a_question_nobody_can_be_asked_says_so(workspace):
    message, reason = await refusal(
        workspace, "Write", PermissionMode.DEFAULT, file_path="b.py", content="password = 'hunter2'"
    )
    assert "No one can approve it here, so it is refused." in message
    assert "No one can approve it here" in reason
