# loses 4.7 · message: "far from what these networks give"
answer_4_7b = 0.02
