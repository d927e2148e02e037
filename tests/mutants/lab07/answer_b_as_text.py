# loses 7.7 · message: "should be a number"
answer_7_7b = "0.5 points"
