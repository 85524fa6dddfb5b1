"""What tests, benchmarks and the demo share: a plain client, and suites that every implementation passes."""
