"""Who decides the points of one submission.

:mod:`.marker` runs claims against a submission, question by question; :mod:`.lab` marks
one in a warm worker; :mod:`.judge` does so in a process that can be ended, :mod:`.pool`
with several of those; :mod:`.check` is ``check`` and ``skip`` in the notebook.
"""
