# loses 0.8 · message: "is a fraction"
answer_0_8b = 0.94
