# loses 1.8 · message: "Measure again"
answer_1_8b = 3.1
