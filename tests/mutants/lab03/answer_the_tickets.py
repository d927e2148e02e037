# loses 3.7 · message: "or the ticket's"
answer_3_7b = 0.2
