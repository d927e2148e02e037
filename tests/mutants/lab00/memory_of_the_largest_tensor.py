# loses 0.9 · message: "more than one tensor is there"
answer_0_9a = 1572864
