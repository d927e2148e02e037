# loses 3.7 · message: "the answer should be a number"
answer_3_7b = "2.3 times"
