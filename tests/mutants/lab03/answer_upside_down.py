# loses 3.7 · message: "Upside down"
answer_3_7b = 0.4
