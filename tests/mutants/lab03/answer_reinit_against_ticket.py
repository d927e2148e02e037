# loses 3.7 · message: "against the ticket"
answer_3_7b = 9.2
