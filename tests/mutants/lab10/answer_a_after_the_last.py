# loses 10.7 · message: "nothing is left to save"
answer_10_7a = "A"
