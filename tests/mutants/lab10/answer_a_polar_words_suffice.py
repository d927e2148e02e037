# loses 10.7 · message: "Keeping the polar words alone"
answer_10_7a = "d"
