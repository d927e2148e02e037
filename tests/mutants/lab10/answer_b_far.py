# loses 10.7 · message: "far from what these checkpoints give"
answer_10_7b = 8.0
