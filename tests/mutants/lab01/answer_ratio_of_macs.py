# loses 1.8 · message: "a ratio of products or of bits"
answer_1_8b = 12.4
