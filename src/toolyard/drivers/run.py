"""One run of an agent CLI, from its settings to its last message.

A `Run` owns its workspace, its token, its folder and its process while it is iterated, and gives all of them back in
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
from toolyard.core.calls import Asker
from toolyard.core.errors import ConfigError, SystemFault, ToolyardError
from toolyard.core.ids import new_id
from toolyard.core.threaded_open import closed_in_thread, made_in_thread
from toolyard.drivers.approval_callback import in_loop_of_caller
from toolyard.drivers.call_results import CallResults
from toolyard.drivers.changes import Changes, changes_since
from toolyard.drivers.credentials import lack_of_access
from toolyard.drivers.driver import TOKEN_VARIABLE, Driver, Heard, Reader, Recipe, RunSpec
from toolyard.drivers.mcp_host import Host, Stay
from toolyard.drivers.messages import Fault, Finished, Message, Status, Usage
from toolyard.drivers.options import DriveOptions
from toolyard.drivers.outcome import Ending, verdict
from toolyard.drivers.output_parser import Hearing
from toolyard.drivers.process import CliProcess, Start
from toolyard.drivers.run_folder import RunFolder
from toolyard.drivers.tool_approvals import Approvals, denied
from toolyard.models.pricing import list_price
from toolyard.snapshots.service.auto_snapshots import Place
from toolyard.transports.client_profile import APPROVE, Terms
from toolyard.workspace.file_tool_detector import Callback

_HANDED_ON = (
    *("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_GIVEN = "prompt"
_NOISE_LINES = 5
_NOISE_BYTES = 500
_MOST_FAULTS = 100
_NO_THREAD = "can't start new thread"
_MACHINE = "Look at the limits of this machine, then try again."
_OWN_FAULT = "This is an error in a program ({}), not of the machine: please report it, with what was asked for."


class Run:
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
        self._faults: deque[Fault] = deque(maxlen=_MOST_FAULTS)
        """Of the caller's own functions, to be told with the next message."""
        self._ending = Ending.OWN
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
        self._stop(Ending.CANCELLED)

    async def finish(self) -> Finished:
        """Run it to its end, whatever it says on the way."""
        async for message in self:
            if isinstance(message, Finished):
                return message
        raise SystemFault("The run was over already.", hint="Drive another one.")

    def _stop(self, ending: Ending) -> None:
        if self._ending is Ending.OWN:
            self._ending = ending
        if self._process is not None:
            self._process.stop()

    async def _run(self) -> AsyncIterator[Message]:
        began, began_ns = time.monotonic(), time.time_ns()
        outcome = _Outcome()
        expiry = asyncio.get_running_loop().call_later(self._options.timeout, self._stop, Ending.TIMED_OUT)
        try:
            async with contextlib.aclosing(self._attempt(outcome)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:  # noqa: BLE001 - the outermost edge: a run has its last message, whatever happens
            outcome.fault = error if isinstance(error, ToolyardError) else _unforeseen(error)
            yield Fault(_sentence(outcome.fault), outcome.fault.hint, outcome.fault.retryable)
        finally:
            expiry.cancel()
            self._process = None
        seconds = time.monotonic() - began
        if outcome.place is not None:  # given back by now, with the last snapshot taken
            outcome.changes = await changes_since(outcome.place, began_ns)
        yield self._finished(outcome, seconds)

    async def _attempt(self, outcome: _Outcome) -> AsyncGenerator[Message]:
        program = self._program()
        self._check_access()
        async with contextlib.AsyncExitStack() as owned:
            host = self._host
            if host is None:
                host = await made_in_thread(Host)
                owned.push_async_callback(closed_in_thread, host)
            stay = await owned.enter_async_context(host.stay(self._yard_options(), self._terms))
            loop = asyncio.get_running_loop()
            owned.enter_context(host.watched(lambda: loop.call_soon_threadsafe(self._stop, Ending.UNSERVED)))
            outcome.place = stay.yard.snapshots.place
            if self._on_operation is not None:
                stay.yard.detector.register_callback(self._on_operation)
            roots = stay.yard.mounts.declared
            folder = await made_in_thread(lambda: RunFolder(roots, stay.yard.state))
            owned.push_async_callback(closed_in_thread, folder)
            tools = tuple(stay.yard.dispatch.tools)
            spec = await asyncio.to_thread(self._spec, stay, folder, tools)
            recipe = self._driver.recipe(spec)
            await asyncio.to_thread(folder.write, {**recipe.files, _GIVEN: recipe.given})
            secrets = (stay.token, *self._keys().values())
            hearing = self._results.hearing = Hearing(secrets)
            process = await CliProcess.start(self._start(program, recipe, stay, folder))
            owned.push_async_callback(process.close)
            self._process = process
            if self._ending is not Ending.OWN:
                process.stop()
            reader = self._driver.reader(self.id, tools)
            outcome.heard = reader.heard
            async for line in process.lines():
                for message in (*self._own_faults(), *outcome.read(hearing.masked(line), hearing, reader)):
                    yield await self._completed(message, outcome)
            for fault in self._own_faults():
                yield fault
            if process.too_long:
                yield Fault(f"{process.too_long} messages of the CLI were too long, and are lost.")
            outcome.code = await process.ended()
            reader.heard.forgive(spec.denied)
            outcome.attached = stay.attached.is_set()
            outcome.stderr = process.tail(secrets)

    async def _completed(self, message: Message, outcome: _Outcome) -> Message:
        """The message, with what the CLI does not say and we know."""
        if not isinstance(message, Usage):
            return self._results.completed(message)
        outcome.cost = message.cost
        if not message.cost:  # some say 0 of a model whose price they do not know
            price = await asyncio.to_thread(self._list_price, outcome.heard)
            outcome.cost = message.cost if price is None else price
        return replace(message, cost=outcome.cost)

    def _list_price(self, heard: Heard) -> float | None:
        """None where one of the models has no known price."""
        by_model = heard.tokens_by_model or {heard.model or self._options.model: heard.tokens}
        total = 0.0
        for name, tokens in by_model.items():
            model = self._driver.model_ref(name, self._options.variables)
            fresh = max(tokens.input - tokens.cached, 0)
            price = list_price(model, fresh=fresh, cached=tokens.cached, output=tokens.output)
            if price is None:
                return None
            total += price
        return total

    def _own_faults(self) -> Iterator[Fault]:
        while self._faults:
            yield self._faults.popleft()

    def _program(self) -> str:
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
        lack = lack_of_access(self._driver, variables, Settings.from_environment(variables).home)
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
            injected=options.injected,
            state_home=options.state,
            begins_session=True,
            session=f"{self._driver.program}-{options.run or self.id}",
        )

    def _terms(self, yard: Yard) -> Terms:
        driver = self._driver
        names = {tool: driver.served_name(tool) for tool in yard.dispatch.tools}
        changed = {tool: served for tool, served in names.items() if served != tool}
        terms = Terms(changed, self._asker(), on_result=self._results.record)
        if driver.asks_first:
            terms = replace(terms, approve=Approvals(yard, terms, driver.shown_name("")))
        return terms

    def _asker(self) -> Asker | None:
        ask = self._options.ask
        return in_loop_of_caller(ask, self._faults.append) if ask is not None else None

    def _spec(self, stay: Stay, folder: RunFolder, tools: tuple[str, ...]) -> RunSpec:
        options, driver, keys = self._options, self._driver, self._keys()
        home = Settings.from_environment(options.variables).home
        has_login = not keys and folder.copy_logins(driver.logins, home, options.variables)
        return RunSpec(
            prompt=self._prompt,
            url=stay.url,
            folder=folder.path,
            workdir=folder.workdir,
            model=options.model,
            instructions=options.instructions,
            tools=tools,
            denied=denied(stay.yard),
            approve_tool=APPROVE if driver.asks_first else "",
            variables={**self._named(driver.handed_on), **keys},
            has_login=has_login,
        )

    def _start(self, program: str, recipe: Recipe, stay: Stay, folder: RunFolder) -> Start:
        """What the CLI's process sees: a few of the user's variables, by name, and nothing else of them."""
        own = {"HOME": folder.path, "TMPDIR": folder.temporary, "NO_COLOR": "1", TOKEN_VARIABLE: stay.token}
        handed_on = {**self._named((*_HANDED_ON, *self._driver.handed_on)), **self._keys()}
        return Start(
            run=self.id,
            words=(program, *recipe.words),
            workdir=folder.workdir,
            variables={**handed_on, **own, **recipe.variables},
            folder=folder.path,
            given=os.path.join(folder.path, _GIVEN),
            held=folder.held,
        )

    def _keys(self) -> dict[str, str]:
        return self._named(self._driver.keys)

    def _named(self, names: Iterable[str]) -> dict[str, str]:
        """Those of the user's variables that are set."""
        return {name: value for name in names if (value := self._options.variables.get(name))}

    def _finished(self, outcome: _Outcome, seconds: float) -> Finished:
        heard = outcome.heard
        if outcome.fault is not None:
            status, reason, hint = Status.FAILED, _sentence(outcome.fault), outcome.fault.hint
        else:
            status, reason, hint = verdict(
                self._driver, heard, outcome.code, attached=outcome.attached, ending=self._ending, said=outcome.said()
            )
        return Finished(
            status=status,
            reason=reason,
            hint=hint,
            text="".join(heard.text),
            attached=outcome.attached,
            exit_code=outcome.code,
            tokens=heard.tokens,
            cost=outcome.cost,
            seconds=round(seconds, 3),
            changed=outcome.changes.paths,
            snapshot=outcome.changes.snapshot,
            snapshot_before=outcome.changes.before,
        )


@dataclass(slots=True)
class _Outcome:
    """What becomes of a run, as far as it is known."""

    heard: Heard = field(default_factory=Heard)
    code: int | None = None
    attached: bool = False
    cost: float | None = None
    fault: ToolyardError | None = None
    stderr: str = ""
    place: Place | None = None
    """What was opened for it."""
    changes: Changes = field(default_factory=Changes)
    noise: deque[str] = field(default_factory=lambda: deque(maxlen=_NOISE_LINES))
    """The last of what it printed that was no message."""

    def read(self, line: bytes, hearing: Hearing, reader: Reader) -> Iterator[Message]:
        try:
            record = hearing.record(line)
        except SystemFault as error:
            yield Fault(error.message, error.hint)
            return
        if record is not None:
            yield from reader.read(record)
        elif line.strip():
            self.noise.append(line[:_NOISE_BYTES].decode("utf-8", "replace"))

    def said(self) -> str:
        """What it said beside its messages."""
        return self.stderr or "\n".join(self.noise)


def _sentence(error: ToolyardError) -> str:
    """What it says, beginning as sentences do. Errors of configurations begin otherwise, to follow a file's name."""
    is_bare = isinstance(error, ConfigError) and not error.where
    return error.message[:1].upper() + error.message[1:] if is_bare else error.message


def _unforeseen(error: Exception) -> SystemFault:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    is_machine = isinstance(error, OSError | MemoryError) or _NO_THREAD in why
    hint = _MACHINE if is_machine else _OWN_FAULT.format(type(error).__name__)
    return SystemFault(f"The run could not go on: {why.rstrip('.')}.", hint=hint)
