# loses 7.7 · message: "the accuracy"
answer_7_7b = 98.1
