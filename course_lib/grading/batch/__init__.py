"""``course grade``: a class, in three steps (:mod:`.run` does them).

1. Collect what was handed in, from whatever a platform gives: :mod:`.collect` says whose
   each file is, by the adapters in :mod:`.platforms` and the folders (:mod:`.layout`,
   :mod:`.names`); :mod:`.choose` says which notebook counts (:mod:`.origin`,
   :mod:`.modules`); :mod:`.entries`, :mod:`.zipnames` and :mod:`.ipynb` read files. Each
   student's is a :class:`.submission.Submission`.
2. Grade: :mod:`.plan` says what is to be marked, and :mod:`.report` writes one
   :class:`.result.Result` for each, with a person's marks (:mod:`.manual_marks`) and late days
   (:mod:`.policy`, :mod:`.times`).
3. Publish: :mod:`.summary`, :mod:`.upload` (:mod:`.roster`), :mod:`.handback`,
   :mod:`.similarity`, :mod:`.appeal`.

Elsewhere: :mod:`.cluster`, :mod:`.gradescope`, :mod:`.mistakes_page`.
"""
