"""Several plans of the same data side by side, and the search for the settings that suit it."""
