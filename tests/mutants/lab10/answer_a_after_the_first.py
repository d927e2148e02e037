# loses 10.7 · message: "has not been read yet"
answer_10_7a = "C"
