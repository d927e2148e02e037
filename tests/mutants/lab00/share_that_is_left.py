# loses 0.9 · message: "the share of MACs that is left"
answer_0_9b = 0.19
