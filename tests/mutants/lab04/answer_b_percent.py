# loses 4.7 · message: "a percentage"
answer_4_7b = 98.0
