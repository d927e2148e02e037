# loses 0.8 · message: "should be one of the letters"
answer_0_8a = "x"
