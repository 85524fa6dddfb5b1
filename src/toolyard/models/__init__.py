"""Models behind APIs: Gemini, Anthropic, OpenAI and everything that speaks as OpenAI does. pydantic-ai is known only here."""
