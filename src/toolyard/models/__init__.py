"""Models behind APIs: Gemini, Anthropic, OpenAI and all that speaks as OpenAI does. Only here is pydantic-ai known."""
