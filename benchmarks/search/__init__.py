"""Quality of the search: on surfaces whose best point is known, beside other searches."""
