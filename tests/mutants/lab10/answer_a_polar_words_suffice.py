# loses 10.7 · message: "Keeping the evidence"
answer_10_7a = "d"
