"""The judge judged: every planted bug has to be caught by the check that names it, and no clean server may be flagged."""
