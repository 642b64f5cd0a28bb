"""The embedded world: household procedures on a table, with their exact plans and their pictures."""
