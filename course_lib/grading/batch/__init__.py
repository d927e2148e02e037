"""``course grade``: a class, in three steps (:mod:`.run` does them).

1. Collect what was handed in: :mod:`.collect` says whose each file is and which counts.
2. Grade: :mod:`.plan` says what is to be marked, here or on a :mod:`.cluster`, and :mod:`.report`
   writes one :class:`.result.Result` for each, with a person's marks (:mod:`.manual_marks`).
3. Publish: :mod:`.summary`, :mod:`.gradebook`, :mod:`.handback`, :mod:`.similarity`,
   :mod:`.appeal`.

Elsewhere: :mod:`.gradescope`.
"""
