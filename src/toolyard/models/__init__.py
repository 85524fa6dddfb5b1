"""Models behind APIs: Gemini, Anthropic, OpenAI and what speaks as OpenAI does. pydantic-ai is known only here."""
