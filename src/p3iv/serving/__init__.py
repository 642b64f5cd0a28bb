"""`p3iv serve`: the HTTP service and its page."""
