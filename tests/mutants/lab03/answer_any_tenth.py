# loses 3.7 · message: "which tenth"
answer_3_7a = "A"
