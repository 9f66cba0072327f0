"""The decisions: facts in (`snapshot`), one file per policy, a plan out (`plan`). Pure."""
