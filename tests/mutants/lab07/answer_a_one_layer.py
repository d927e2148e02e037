# loses 7.7 · message: "layer"
answer_7_7a = "D"
