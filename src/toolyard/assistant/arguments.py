"""Arguments of the six tools. Their names, types and defaults are a public contract."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from toolyard.dispatch.tool import Arguments

ThinkingMode = Literal["minimal", "low", "medium", "high", "max"]
AnalysisType = Literal["architecture", "performance", "security", "quality", "general"]
ReviewType = Literal["full", "security", "performance", "quick"]
SeverityFilter = Literal["critical", "high", "medium", "all"]


def _require_nonempty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


NonEmptyText = Annotated[str, AfterValidator(_require_nonempty)]
_MOST_NAMES = 10_000  # the limits of a request are lower
Files = Annotated[list[NonEmptyText], Field(min_length=1, max_length=_MOST_NAMES, description="Files or folders")]
OptionalFiles = Annotated[
    list[NonEmptyText], Field(default_factory=list, max_length=_MOST_NAMES, description="Files or folders")
]
ContinuationId = Annotated[str | SkipJsonSchema[None], Field(description="Goes on with that thread")]


class AssistantArguments(Arguments):
    """Base of all arguments. Drops null values, which some clients send for arguments that they omit."""

    thinking_mode: ThinkingMode = "medium"

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        return {name: value for name, value in cast("dict[str, Any]", raw).items() if value is not None}


class ChatArguments(AssistantArguments):
    prompt: NonEmptyText
    continuation_id: ContinuationId = None
    temperature: Annotated[float, Field(ge=0, le=1)] = 0.5


class ThinkdeepArguments(AssistantArguments):
    current_analysis: NonEmptyText
    problem_context: str = ""
    focus_areas: Annotated[
        list[NonEmptyText], Field(default_factory=list, max_length=50, description="Each is answered")
    ]
    thinking_mode: ThinkingMode = "high"
    files: OptionalFiles
    continuation_id: ContinuationId = None


class AnalyzeArguments(AssistantArguments):
    files: Files
    question: NonEmptyText
    analysis_type: AnalysisType = "general"
    continuation_id: ContinuationId = None


class CodereviewArguments(AssistantArguments):
    files: Files
    context: Annotated[NonEmptyText, Field(description="What the code is for")]
    review_type: ReviewType = "full"
    severity_filter: Annotated[SeverityFilter, Field(description="The least that is reported")] = "all"
    standards: str = ""


class DebugArguments(AssistantArguments):
    error_description: NonEmptyText
    error_context: Annotated[str, Field(description="Stack trace, log")] = ""
    files: OptionalFiles
    previous_attempts: str = ""
    runtime_info: str = ""


class PrecommitArguments(AssistantArguments):
    path: Annotated[NonEmptyText, Field(description="Root of the git repository")]
    include_staged: bool = True
    include_unstaged: Annotated[bool, Field(description="With untracked files")] = True
    review_type: ReviewType = "full"
    original_request: Annotated[str, Field(description="What the change is for")] = ""
