# loses 10.7 · message: "the answer should be a number"
answer_10_7b = "2 times"
