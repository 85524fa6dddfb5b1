"""One run of an agent CLI, from its settings to its last message.

A `CliRun` owns its workspace, its token, its folder and its process while it is iterated, and gives all of them back in
every ending: when the CLI ends, when it is cancelled or takes too long, when the caller stops listening, and, through
the keeper (see `reaper.py`), when this process is killed.
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
_MACHINE_HINT = "Look at the limits of this machine, then try again."
_BUG_HINT = "This is an error in a program ({}), not of the machine: please report it, with what was asked for."


class CliRun:
    """`async for message in run`, once. Also a context manager, which cancels what is still under way."""

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
        """Of the caller's own functions, to be told with the next message."""
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
        """End the run. Its last message follows, and says so."""
        self._stop(EndCause.CANCELLED)

    async def finish(self) -> Finished:
        """Run it to its end, whatever it says on the way."""
        async for message in self:
            if isinstance(message, Finished):
                return message
        raise SystemFault("The run was over already.", hint="Drive another one.")

    def _stop(self, cause: EndCause) -> None:
        if self._end_cause is EndCause.OWN:
            self._end_cause = cause
        if self._process is not None:
            self._process.stop()

    async def _run(self) -> AsyncIterator[Message]:
        began, began_ns = time.monotonic(), time.time_ns()
        outcome = _RunProgress()
        expiry = asyncio.get_running_loop().call_later(self._options.timeout, self._stop, EndCause.TIMED_OUT)
        try:
            async with contextlib.aclosing(self._attempt(outcome)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:  # noqa: BLE001 - the outermost edge: a run has its last message, whatever happens
            outcome.fault = error if isinstance(error, ToolyardError) else _unexpected_error(error)
            yield Fault(_sentence(outcome.fault), outcome.fault.hint, outcome.fault.retryable)
        finally:
            expiry.cancel()
            self._process = None
        seconds = time.monotonic() - began
        if outcome.snapshot_location is not None:  # given back by now, with the last snapshot taken
            outcome.changes = await changes_since(outcome.snapshot_location, began_ns)
        yield self._final_message(outcome, seconds)

    async def _attempt(self, progress: _RunProgress) -> AsyncGenerator[Message]:
        program = self._find_program()
        self._check_access()
        async with contextlib.AsyncExitStack() as owned:
            host = self._host
            if host is None:
                host = await open_in_thread(Host)
                owned.push_async_callback(close_in_thread, host)
            stay = await owned.enter_async_context(host.lease(self._yard_options(), self._client_profile))
            loop = asyncio.get_running_loop()
            owned.enter_context(host.notify_on_end(lambda: loop.call_soon_threadsafe(self._stop, EndCause.UNSERVED)))
            progress.snapshot_location = stay.yard.snapshots.location
            if self._on_operation is not None:
                stay.yard.detector.register_callback(self._on_operation)
            roots = stay.yard.mounts.declared_roots
            folder = await open_in_thread(lambda: RunFolder(roots, stay.yard.state))
            owned.push_async_callback(close_in_thread, folder)
            tools = tuple(stay.yard.dispatch.tools)
            spec = await asyncio.to_thread(self._run_spec, stay, folder, tools)
            recipe = self._driver.launch_spec(spec)
            await asyncio.to_thread(folder.write, {**recipe.files, _PROMPT_FILE: recipe.stdin})
            secrets = (stay.token, *self._key_variables().values())
            hearing = self._results.output_parser = OutputParser(secrets)
            process = await CliProcess.start(self._process_spec(program, recipe, stay, folder))
            owned.push_async_callback(process.close)
            self._process = process
            if self._end_cause is not EndCause.OWN:
                process.stop()
            reader = self._driver.reader(self.id, tools)
            progress.output_state = reader.state
            async for line in process.lines():
                for message in (
                    *self._take_callback_faults(),
                    *progress.parse_line(hearing.mask(line), hearing, reader),
                ):
                    yield await self._complete_message(message, progress)
            for fault in self._take_callback_faults():
                yield fault
            if process.dropped_lines:
                yield Fault(f"{process.dropped_lines} messages of the CLI were too long, and are lost.")
            progress.code = await process.wait_for_exit()
            reader.state.discard_denied(spec.denied)
            progress.attached = stay.attached.is_set()
            progress.stderr = process.stderr_tail(secrets)

    async def _complete_message(self, message: Message, progress: _RunProgress) -> Message:
        """The message, with what the CLI does not say and we know."""
        if not isinstance(message, Usage):
            return self._results.complete_message(message)
        progress.cost = message.cost
        if not message.cost:  # some say 0 of a model whose price they do not know
            price = await asyncio.to_thread(self._list_price, progress.output_state)
            progress.cost = message.cost if price is None else price
        return replace(message, cost=progress.cost)

    def _list_price(self, state: OutputState) -> float | None:
        """None where one of the models has no known price."""
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
        """Where the CLI is."""
        driver, path = self._driver, self._options.variables.get("PATH")
        found = shutil.which(self._options.program or driver.program, path=path)
        if found is None:
            raise SystemFault(
                f"{driver.title} is not installed: there is no {driver.program!r} on the PATH.",
                hint=f"Install it with: npm install -g {driver.package}",
            )
        return found

    def _check_access(self) -> None:
        """Say at once what the CLI would say in its own words, or not at all. Raises SystemFault."""
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
        terms = ClientProfile(changed, self._asker(), on_result=self._results.record)
        if driver.asks_first:
            terms = replace(terms, approve=ApprovalTool(yard, terms, driver.shown_name("")))
        return terms

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
        """What the CLI's process sees: a few of the user's variables, by name, and nothing else of them."""
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
        """Those of the user's variables that are set."""
        return {name: value for name in names if (value := self._options.variables.get(name))}

    def _final_message(self, progress: _RunProgress, seconds: float) -> Finished:
        heard = progress.output_state
        if progress.fault is not None:
            status, reason, hint = Status.FAILED, _sentence(progress.fault), progress.fault.hint
        else:
            status, reason, hint = run_verdict(
                self._driver,
                heard,
                progress.code,
                attached=progress.attached,
                cause=self._end_cause,
                output_tail=progress.output_tail(),
            )
        return Finished(
            status=status,
            reason=reason,
            hint=hint,
            text="".join(heard.text),
            attached=progress.attached,
            exit_code=progress.code,
            tokens=heard.tokens,
            cost=progress.cost,
            seconds=round(seconds, 3),
            changed=progress.changes.paths,
            snapshot=progress.changes.snapshot,
            snapshot_before=progress.changes.before,
        )


@dataclass(slots=True)
class _RunProgress:
    """What becomes of a run, as far as it is known."""

    output_state: OutputState = field(default_factory=OutputState)
    code: int | None = None
    attached: bool = False
    cost: float | None = None
    fault: ToolyardError | None = None
    stderr: str = ""
    snapshot_location: SnapshotLocation | None = None
    """What was opened for it."""
    changes: WorkspaceChanges = field(default_factory=WorkspaceChanges)
    noise: deque[str] = field(default_factory=lambda: deque(maxlen=_NOISE_LINES))
    """The last of what it printed that was no message."""

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
        """What it said beside its messages."""
        return self.stderr or "\n".join(self.noise)


def _sentence(error: ToolyardError) -> str:
    """What it says, beginning as sentences do. Errors of configurations begin otherwise, to follow a file's name."""
    is_bare = isinstance(error, ConfigError) and not error.where
    return error.message[:1].upper() + error.message[1:] if is_bare else error.message


def _unexpected_error(error: Exception) -> SystemFault:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    is_machine = isinstance(error, OSError | MemoryError) or _NO_THREAD in why
    hint = _MACHINE_HINT if is_machine else _BUG_HINT.format(type(error).__name__)
    return SystemFault(f"The run could not go on: {why.rstrip('.')}.", hint=hint)
