# loses 4.7 · message: "the intervals over seeds"
answer_4_7a = "D"
