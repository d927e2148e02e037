"""What is claimed of an answer, and how a mistake is named: the vocabulary of
``tests/labs``.

- :mod:`.question`: a claim about one question, worth points; a lab's claims read from
  their texts. :mod:`.expect`: what a value should be. :mod:`.draw`: random inputs.
  :mod:`.student`: the student's names as a claim sees them. :mod:`.alarm`: what ends
  their code.
- :mod:`.mistakes`: a mistake known by its result, and the driver of most claims.
  :mod:`.rounding`: how many of n go. :mod:`.typed`: answers that are typed in.
  :mod:`.hunt`: bug hunts.
"""
