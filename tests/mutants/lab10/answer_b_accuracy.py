# loses 10.7 · message: "a percentage"
answer_10_7b = 97.5
