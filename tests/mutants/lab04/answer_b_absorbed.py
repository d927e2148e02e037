# loses 4.7 · message: "the one of what was absorbed"
answer_4_7b = 0.86
