# loses 1.8 · message: "the answer should be a number"
answer_1_8b = "1.0 x"
