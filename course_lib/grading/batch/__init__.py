"""``course grade``: a class. :mod:`.run` it; :mod:`.collect` what was handed in
(:mod:`.layout`, :mod:`.entries`, :mod:`.names`, :mod:`.ipynb`, :mod:`.origin`);
:mod:`.plan` what is to be marked; :mod:`.report`, :mod:`.summary`, :mod:`.byhand`,
:mod:`.policy`; hand it back (:mod:`.roster`, :mod:`.upload`, :mod:`.handback`);
:mod:`.similarity`; :mod:`.appeal`; elsewhere: :mod:`.cluster`, :mod:`.gradescope`.
"""
