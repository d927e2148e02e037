# loses 0.9 · message: "every MAC had a weight in it"
answer_0_9b = 10
