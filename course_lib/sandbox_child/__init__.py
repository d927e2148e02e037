"""The child's half of the sandbox: the warm process that forks a child for every submission,
the restrictions that the child puts on itself, and what a submission finds there in place
of the course.

Nothing here knows a test, an expected value or an answer. Beside this package a child sees
:mod:`course_lib.student_code` and what notebooks use of the course, see :mod:`.stubs`.
"""
