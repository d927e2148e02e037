# loses 0.8 · message: "a zero input never meets a weight that is there"
answer_0_8a = "e"
