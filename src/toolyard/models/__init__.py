"""Chat models behind APIs: Gemini, Anthropic, OpenAI and compatible servers. Only this package uses pydantic-ai."""
