"""What runs beside a student's code: the wire, the harness that drives the code, the
warm process that forks.

Nothing here knows a test, an expected value or an answer. The grader
(``course_lib.grading``) imports this package; this package imports nothing else of
``course_lib``, so it can be shown alone to a process that is not trusted.
"""
