# loses 3.7 · message: "a number of steps"
answer_3_7b = 303
