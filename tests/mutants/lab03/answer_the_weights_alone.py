# loses 3.7 · message: "at other places"
answer_3_7a = "D"
