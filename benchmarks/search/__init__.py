"""How good is the search: surfaces whose best point is known, and other searches beside ours."""
