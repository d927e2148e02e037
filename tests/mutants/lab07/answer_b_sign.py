# loses 7.7 · message: "far from"
answer_7_7b = -7.5
