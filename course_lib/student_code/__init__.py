"""Read a student's code, run what it defines, and answer requests about its names. The
same in the notebook's check and in the sandbox.

Nothing here knows a test, an expected value or an answer, since a submission can see it:
of the rest of ``course_lib`` it imports ``models`` only.
"""
