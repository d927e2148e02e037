# loses 0.8 · message: "a lower bound would hold for every layer"
answer_0_8a = "a"
