"""Where the course's data come from."""
