# loses 0.8 · message: "without quotes and without a unit"
answer_0_8b = "94 %"
