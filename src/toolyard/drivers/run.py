"""One run of an agent CLI, from its settings to its last message.

A `CliRun` owns its workspace, token, folder and process while it is iterated, and releases them however it ends: when
the CLI ends, is cancelled or times out, when the caller stops iterating, and, through the reaper (see `reaper.py`),
when this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.settings import Settings
from toolyard.core.calls import ApprovalCallback
from toolyard.core.errors import ConfigError, SystemFault, ToolyardError
from toolyard.core.ids import new_id
from toolyard.core.threaded_open import close_in_thread, open_in_thread
from toolyard.drivers.approval_callback import approval_on_caller_loop
from toolyard.drivers.call_results import CallResults
from toolyard.drivers.changes import WorkspaceChanges, changes_since
from toolyard.drivers.credentials import missing_access
from toolyard.drivers.driver import TOKEN_VARIABLE, Driver, LaunchSpec, OutputReader, OutputState, RunSpec
from toolyard.drivers.mcp_host import Host, Lease
from toolyard.drivers.messages import Fault, Finished, Message, Status, Usage
from toolyard.drivers.options import DriveOptions
from toolyard.drivers.outcome import EndCause, run_verdict
from toolyard.drivers.output_parser import OutputParser
from toolyard.drivers.process import CliProcess, ProcessSpec
from toolyard.drivers.run_folder import RunFolder
from toolyard.drivers.tool_approvals import ApprovalTool, denied_tools
from toolyard.models.pricing import list_price
from toolyard.snapshots.service.auto_snapshots import SnapshotLocation
from toolyard.transports.client_profile import APPROVE_TOOL_NAME, ClientProfile
from toolyard.workspace.file_tool_detector import Callback

_PASSED_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_PROMPT_FILE = "prompt"
_NOISE_LINES = 5
_NOISE_BYTES = 500
_MAX_FAULTS = 100
_NO_THREAD = "can't start new thread"
_MACHINE_HINT = "Check the limits of this machine, then try again."
_BUG_HINT = "This is a bug ({}), not a problem of this machine: please report it with the options of the run."


class CliRun:
    """A run: iterate it once with `async for`. As a context manager it cancels the run on exit."""

    def __init__(
        self,
        driver: Driver,
        prompt: str,
        options: DriveOptions,
        host: Host | None = None,
        on_operation: Callback | None = None,
    ) -> None:
        """`on_operation` is called with each file operation of the CLI, in the thread that ran it."""
        self.id = new_id()
        self._driver = driver
        self._prompt = prompt
        self._options = options
        self._host = host
        self._on_operation = on_operation
        self._results = CallResults()
        self._faults: deque[Fault] = deque(maxlen=_MAX_FAULTS)
        """Faults of the caller's callbacks, reported with the next message."""
        self._end_cause = EndCause.OWN
        self._process: CliProcess | None = None
        self._messages: AsyncIterator[Message] | None = None

    def __aiter__(self) -> AsyncIterator[Message]:
        if self._messages is None:
            self._messages = self._run()
        return self._messages

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
        if self._messages is not None:
            async for _message in self._messages:
                pass

    def cancel(self) -> None:
        """Ends the run. Its last message follows."""
        self._stop(EndCause.CANCELLED)

    async def finish(self) -> Finished:
        """Runs to the end and returns the last message."""
        async for message in self:
            if isinstance(message, Finished):
                return message
        raise SystemFault("The run has already ended.", hint="Start another one.")

    def _stop(self, cause: EndCause) -> None:
        if self._end_cause is EndCause.OWN:
            self._end_cause = cause
        if self._process is not None:
            self._process.stop()

    async def _run(self) -> AsyncIterator[Message]:
        began, began_ns = time.monotonic(), time.time_ns()
        progress = _RunProgress()
        expiry = asyncio.get_running_loop().call_later(self._options.timeout, self._stop, EndCause.TIMED_OUT)
        try:
            async with contextlib.aclosing(self._attempt(progress)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:  # noqa: BLE001 - the outermost edge: every run has a last message
            progress.fault = error if isinstance(error, ToolyardError) else _unexpected_error(error)
            yield Fault(_sentence(progress.fault), progress.fault.hint, progress.fault.retryable)
        finally:
            expiry.cancel()
            self._process = None
        seconds = time.monotonic() - began
        if progress.snapshot_location is not None:  # the workspace is closed, and its last snapshot taken
            progress.changes = await changes_since(progress.snapshot_location, began_ns)
        yield self._final_message(progress, seconds)

    async def _attempt(self, progress: _RunProgress) -> AsyncGenerator[Message]:
        program = self._find_program()
        self._check_access()
        async with contextlib.AsyncExitStack() as owned:
            host = self._host
            if host is None:
                host = await open_in_thread(Host)
                owned.push_async_callback(close_in_thread, host)
            lease = await owned.enter_async_context(host.lease(self._yard_options(), self._client_profile))
            loop = asyncio.get_running_loop()
            owned.enter_context(host.notify_on_end(lambda: loop.call_soon_threadsafe(self._stop, EndCause.UNSERVED)))
            progress.snapshot_location = lease.yard.snapshots.location
            if self._on_operation is not None:
                lease.yard.detector.register_callback(self._on_operation)
            roots = lease.yard.mounts.declared_roots
            folder = await open_in_thread(lambda: RunFolder(roots, lease.yard.state))
            owned.push_async_callback(close_in_thread, folder)
            tools = tuple(lease.yard.dispatch.tools)
            spec = await asyncio.to_thread(self._run_spec, lease, folder, tools)
            launch = self._driver.launch_spec(spec)
            await asyncio.to_thread(folder.write, {**launch.files, _PROMPT_FILE: launch.stdin})
            secrets = (lease.token, *self._key_variables().values())
            parser = self._results.output_parser = OutputParser(secrets)
            process = await CliProcess.start(self._process_spec(program, launch, lease, folder))
            owned.push_async_callback(process.close)
            self._process = process
            if self._end_cause is not EndCause.OWN:
                process.stop()
            reader = self._driver.reader(self.id, tools)
            progress.output_state = reader.state
            async for line in process.lines():
                for message in (
                    *self._take_callback_faults(),
                    *progress.parse_line(parser.mask(line), parser, reader),
                ):
                    yield await self._complete_message(message, progress)
            for fault in self._take_callback_faults():
                yield fault
            if process.dropped_lines:
                yield Fault(f"{process.dropped_lines} messages of the CLI were too long and were dropped.")
            progress.code = await process.wait_for_exit()
            reader.state.discard_denied(spec.denied)
            progress.attached = lease.attached.is_set()
            progress.stderr = process.stderr_tail(secrets)

    async def _complete_message(self, message: Message, progress: _RunProgress) -> Message:
        """Returns the message with what the CLI does not report but we know."""
        if not isinstance(message, Usage):
            return self._results.complete_message(message)
        progress.cost = message.cost
        if not message.cost:  # some CLIs report 0 for a model without a known price
            price = await asyncio.to_thread(self._list_price, progress.output_state)
            progress.cost = message.cost if price is None else price
        return replace(message, cost=progress.cost)

    def _list_price(self, state: OutputState) -> float | None:
        """Returns the cost by list prices; None if a model has no known price."""
        by_model = state.tokens_by_model or {state.model or self._options.model: state.tokens}
        total = 0.0
        for name, tokens in by_model.items():
            model = self._driver.model_ref(name, self._options.variables)
            fresh = max(tokens.input - tokens.cached, 0)
            price = list_price(model, fresh=fresh, cached=tokens.cached, output=tokens.output)
            if price is None:
                return None
            total += price
        return total

    def _take_callback_faults(self) -> Iterator[Fault]:
        while self._faults:
            yield self._faults.popleft()

    def _find_program(self) -> str:
        """Returns the path of the CLI. Raises SystemFault."""
        driver, path = self._driver, self._options.variables.get("PATH")
        program = shutil.which(self._options.program or driver.program, path=path)
        if program is None:
            raise SystemFault(
                f"{driver.title} is not installed: there is no {driver.program!r} on the PATH.",
                hint=f"Install it with: npm install -g {driver.package}",
            )
        return program

    def _check_access(self) -> None:
        """Fails early and clearly if credentials are missing. Raises SystemFault."""
        variables = self._options.variables
        lack = missing_access(self._driver, variables, Settings.from_environment(variables).home)
        if lack is not None:
            raise SystemFault(f"A run of {self._driver.title} would not attach: {lack.what}.", hint=lack.fix)

    def _yard_options(self) -> YardOptions:
        options = self._options
        return YardOptions(
            workspace=options.workspace,
            config=options.config,
            settings=Settings.from_environment(options.variables),
            mode=options.mode,
            agent=options.agent,
            toolset=options.tools,
            injection=options.injected,
            state_home=options.state,
            begins_session=True,
            session=f"{self._driver.program}-{options.run or self.id}",
        )

    def _client_profile(self, yard: Yard) -> ClientProfile:
        driver = self._driver
        names = {tool: driver.served_name(tool) for tool in yard.dispatch.tools}
        changed = {tool: served for tool, served in names.items() if served != tool}
        profile = ClientProfile(changed, self._asker(), on_result=self._results.record)
        if driver.asks_first:
            profile = replace(profile, approve=ApprovalTool(yard, profile, driver.shown_name("")))
        return profile

    def _asker(self) -> ApprovalCallback | None:
        ask = self._options.ask
        return approval_on_caller_loop(ask, self._faults.append) if ask is not None else None

    def _run_spec(self, lease: Lease, folder: RunFolder, tools: tuple[str, ...]) -> RunSpec:
        options, driver, keys = self._options, self._driver, self._key_variables()
        home = Settings.from_environment(options.variables).home
        has_login = not keys and folder.copy_logins(driver.logins, home, options.variables)
        return RunSpec(
            prompt=self._prompt,
            url=lease.url,
            folder=folder.path,
            workdir=folder.workdir,
            model=options.model,
            instructions=options.instructions,
            tools=tools,
            denied=denied_tools(lease.yard),
            approve_tool=APPROVE_TOOL_NAME if driver.asks_first else "",
            variables={**self._user_variables(driver.passed_variables), **keys},
            has_login=has_login,
        )

    def _process_spec(self, program: str, launch: LaunchSpec, lease: Lease, folder: RunFolder) -> ProcessSpec:
        """Returns the process to start. Of the user's variables it gets only a few, by name."""
        own = {"HOME": folder.path, "TMPDIR": folder.temporary, "NO_COLOR": "1", TOKEN_VARIABLE: lease.token}
        handed_on = {
            **self._user_variables((*_PASSED_VARIABLES, *self._driver.passed_variables)),
            **self._key_variables(),
        }
        return ProcessSpec(
            run=self.id,
            command=(program, *launch.arguments),
            workdir=folder.workdir,
            variables={**handed_on, **own, **launch.variables},
            folder=folder.path,
            stdin_path=os.path.join(folder.path, _PROMPT_FILE),
            lock_fd=folder.lock_fd,
        )

    def _key_variables(self) -> dict[str, str]:
        return self._user_variables(self._driver.keys)

    def _user_variables(self, names: Iterable[str]) -> dict[str, str]:
        """Returns those of the user's variables that are set."""
        return {name: value for name in names if (value := self._options.variables.get(name))}

    def _final_message(self, progress: _RunProgress, seconds: float) -> Finished:
        state = progress.output_state
        if progress.fault is not None:
            status, reason, hint = Status.FAILED, _sentence(progress.fault), progress.fault.hint
        else:
            status, reason, hint = run_verdict(
                self._driver,
                state,
                progress.code,
                attached=progress.attached,
                cause=self._end_cause,
                output_tail=progress.output_tail(),
            )
        return Finished(
            status=status,
            reason=reason,
            hint=hint,
            text="".join(state.text),
            attached=progress.attached,
            exit_code=progress.code,
            tokens=state.tokens,
            cost=progress.cost,
            seconds=round(seconds, 3),
            changed=progress.changes.paths,
            snapshot=progress.changes.snapshot,
            snapshot_before=progress.changes.before,
        )


@dataclass(slots=True)
class _RunProgress:
    """What is known about a run so far."""

    output_state: OutputState = field(default_factory=OutputState)
    code: int | None = None
    attached: bool = False
    cost: float | None = None
    fault: ToolyardError | None = None
    stderr: str = ""
    snapshot_location: SnapshotLocation | None = None
    """Set once the workspace is open."""
    changes: WorkspaceChanges = field(default_factory=WorkspaceChanges)
    noise: deque[str] = field(default_factory=lambda: deque(maxlen=_NOISE_LINES))
    """The last lines of output that were not messages."""

    def parse_line(self, line: bytes, parser: OutputParser, reader: OutputReader) -> Iterator[Message]:
        try:
            record = parser.parse_record(line)
        except SystemFault as error:
            yield Fault(error.message, error.hint)
            return
        if record is not None:
            yield from reader.read(record)
        elif line.strip():
            self.noise.append(line[:_NOISE_BYTES].decode("utf-8", "replace"))

    def output_tail(self) -> str:
        """Returns the end of the output that was not messages."""
        return self.stderr or "\n".join(self.noise)


def _sentence(error: ToolyardError) -> str:
    """Returns the message as a sentence. Configuration errors start in lower case, to follow a file name."""
    is_bare = isinstance(error, ConfigError) and not error.where
    return error.message[:1].upper() + error.message[1:] if is_bare else error.message


def _unexpected_error(error: Exception) -> SystemFault:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    is_machine = isinstance(error, OSError | MemoryError) or _NO_THREAD in why
    hint = _MACHINE_HINT if is_machine else _BUG_HINT.format(type(error).__name__)
    return SystemFault(f"The run could not continue: {why.rstrip('.')}.", hint=hint)
