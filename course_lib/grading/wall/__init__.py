"""The outside of the wall round a submission's code: which :mod:`.layers` stand here,
:mod:`.workers` behind them, and what watches their use of the machine (:mod:`.usage`,
:mod:`.cgroup`, :mod:`.alarm`). The inside is :mod:`course_lib.worker`.
"""
