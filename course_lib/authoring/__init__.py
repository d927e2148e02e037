"""From one source per lab to what students open, what self-study readers read, and what
is handed out.

``source`` reads a lab, ``contract`` its claims, ``student`` takes the answers out,
``execute`` runs a notebook, ``build`` writes and checks both notebooks, ``release`` the
folder for students.
"""
