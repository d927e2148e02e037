# loses 0.9 · message: "would be no saving"
answer_0_9b = float("nan")
