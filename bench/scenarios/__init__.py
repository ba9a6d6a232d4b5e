"""One module for each scenario: its first sentence says what it measures, run(session) measures and reports it."""
