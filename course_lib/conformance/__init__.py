"""Whether the table of families is right: every operation, tried on a small model of
every family.

- :mod:`.models`: the small models; :mod:`.operations`: what is tried; :mod:`.page`: the
  results as a table, for docs/own_models.md.
"""
