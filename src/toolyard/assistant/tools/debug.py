"""debug: finds the root cause of an error. Traces are located in the workspace and sent with the code around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolyard.assistant.arguments import DebugArguments
from toolyard.assistant.output import AssistantOutput
from toolyard.assistant.prompt_builder import Question
from toolyard.assistant.prompts import debug_prompt, evidence_block
from toolyard.assistant.request import AssistantRequest
from toolyard.assistant.secret_findings import masked_hint, masked_note
from toolyard.assistant.traces import LocatedFrame, locate_frames, parse_traces


def debug(arguments: DebugArguments, request: AssistantRequest) -> AssistantOutput:
    """Locates the traces of the error and asks the model for the cause; without a model, returns the frames."""
    found = request.find_files(arguments.files)
    request.check_rate()
    request.ctx.notes.status = "following the trace"
    traces = parse_traces(f"{arguments.error_description}\n{arguments.error_context}\n{arguments.runtime_info}")
    frames = locate_frames(traces, request.ctx, named={source.path for source in found.sources if source.is_named})
    errors = [trace.error for trace in traces if trace.error]
    whole = {source.path for source in found.sources}  # their secrets are reported with the files
    excerpts = [each for each in frames if each.excerpt and each.path not in whole]
    followed = "\n".join(filter(None, (_render_trace(errors, frames), masked_hint(excerpts))))
    prompt = debug_prompt(arguments)
    question = Question(
        "debug",
        f"{prompt}\n\n{evidence_block('trace', followed)}" if followed else prompt,
        sources=found.sources,
        skipped=found.skipped,
        field="error_description",
    )
    if (missing := request.missing_model_reason()) is not None:
        output = request.save_without_model(question, followed or "No trace was found.", missing)
    else:
        with request.open_turn(question) as model_turn:
            output = model_turn.save(model_turn.ask())
    files = tuple(dict.fromkeys((*output.files, *(each.path for each in frames if each.excerpt))))
    notes = (*output.notes, *masked_note(excerpts))
    return replace(output, files=files, notes=notes, more={"frames": [_frame_object(each) for each in frames]})


def _render_trace(errors: Sequence[str], frames: Sequence[LocatedFrame]) -> str:
    """Renders the errors and the located frames with their code."""
    parts = [f"Error: {error}" for error in errors]
    for each in frames:
        frame = each.frame
        location = f"{each.path or frame.file}:{frame.line}"
        where = f"{location} in {frame.function}" if frame.function else location
        around = f"\n{each.excerpt}" if each.excerpt else ""
        parts.append(f"{where}{around}" if each.path else f"{where} (not in the workspace)")
    return "\n".join(parts)


def _frame_object(located: LocatedFrame) -> dict[str, Any]:
    frame = located.frame
    return {
        "file": frame.file,
        "line": frame.line,
        "function": frame.function,
        "path": located.path,
        "excerpt": located.excerpt,
    }
