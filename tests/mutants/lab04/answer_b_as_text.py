# loses 4.7 · message: "the answer should be a number"
answer_4_7b = "0.98"
