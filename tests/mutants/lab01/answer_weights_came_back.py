# loses 1.8 · message: "no weight changed in recalibration"
answer_1_8a = "A"
