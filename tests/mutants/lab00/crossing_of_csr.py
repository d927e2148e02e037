# loses 0.8 · message: "COO is another line"
answer_0_8b = 90.5
