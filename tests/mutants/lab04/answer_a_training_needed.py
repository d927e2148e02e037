# loses 4.7 · message: "without any training"
answer_4_7a = "C"
