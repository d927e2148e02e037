# loses 10.7 · message: "structure words"
answer_10_7a = "C"
