# loses 7.7 · message: "same texts"
answer_7_7a = "A"
