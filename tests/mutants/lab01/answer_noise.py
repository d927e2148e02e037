# loses 1.8 · message: "the intervals over seeds"
answer_1_8a = "D"
